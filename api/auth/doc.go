// Package auth identifies the sender of a request: a user with a password, the bearer of a token, the owner of a client
// certificate, or anybody if no log-in is required.
//
// Two files hold the configuration. The web configuration has the format of Prometheus: TLS, client certificates, users with
// bcrypt hashes, and headers. The access file holds hashes of tokens and the rights of tokens and users. The server loads
// both again when they change. If a file is invalid, the previous configuration stays.
//
// The package determines the principal. The routes of package api determine which scope a request needs.
//
// An Authenticator is safe for concurrent use.
package auth
