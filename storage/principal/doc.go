// Package principal says who asks: a Principal has a name, scopes, and matchers that restrict what it reads.
//
// Package api/auth makes the Principal of each request and puts it into the context. The packages below read it from there.
// A context without a Principal belongs to the server itself, which nothing restricts.
package principal
