// Package principal describes the sender of a request: a Principal has a name, scopes, and matchers that
// restrict its reads.
//
// Package api/auth makes the Principal of each request and puts it into the context. The packages below read it from there.
// A context without a Principal belongs to the server itself and has no restriction.
package principal
