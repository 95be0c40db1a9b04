// Package auth identifies the sender of a request. A sender is a user with a password, the bearer of a token, or the owner
// of a client certificate. If no log-in is required, it may be anybody.
//
// Two files hold the configuration. The web configuration has the format of Prometheus: TLS, client certificates, users with
// bcrypt hashes, and headers. The access file holds hashes of tokens and the rights of tokens and users. The server loads
// both again when they change. If a file is invalid, the previous configuration stays.
//
// The package determines the principal. The routes of package api determine which scope a request needs.
//
// An Authenticator is safe for concurrent use.
package auth
