package auth

import (
	"errors"
	"net/http"

	"halite/api/promjson"
	"halite/storage/principal"
)

// contentPolicy allows a page to load only its own styles. No other site may show the page in a frame.
const contentPolicy = "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; form-action 'none'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// Headers sets headers that restrict what a browser does with a response. The headers of the web configuration replace
// them.
func (a *Authenticator) Headers(next http.Handler) http.Handler {
	// All responses share these values. Set replaces a value and never writes to it.
	options, frames, referrer, content := []string{"nosniff"}, []string{"DENY"}, []string{"same-origin"}, []string{contentPolicy}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"] = options
		h["X-Frame-Options"] = frames
		h["Referrer-Policy"] = referrer
		h["Content-Security-Policy"] = content
		for name, value := range a.current.Load().web.headers {
			h.Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// Require passes a request on if its sender has the scopes, and neither restrictions nor a tenant. It answers other requests with
// 401, 403 or 503.
func (a *Authenticator) Require(scopes principal.Scopes, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p, err := a.Identify(r); {
		case err != nil:
			refuse(w, r, err)
		case !p.Scopes.Has(scopes) || p.Restricted() || len(p.Tenants) > 0:
			writeError(w, http.StatusForbidden, TypeForbidden, "this request needs the scope "+scopes.String()+", without restrictions")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// Types of errors in responses, in addition to the types of Prometheus.
const (
	TypeUnauthorized = "unauthorized"
	TypeForbidden    = "forbidden"
	typeUnavailable  = "unavailable"
)

// Status is the status code of a refusal.
func (e *Refusal) Status() int {
	if e.Reason == ReasonBusy {
		return http.StatusServiceUnavailable
	}
	return http.StatusUnauthorized
}

// ScriptHeader marks the requests of scripts. Its value does not matter.
const ScriptHeader = "X-Requested-With"

// Challenge sets the header of a 401 that names the ways to log in. Browsers answer a challenge for a password with their
// own dialog. The web interface has its own fields, so it sends ScriptHeader and gets no such challenge.
func Challenge(h http.Header, r *http.Request) {
	if r.Header.Get(ScriptHeader) == "" {
		h.Add("WWW-Authenticate", `Basic realm="Halite", charset="UTF-8"`)
	}
	h.Add("WWW-Authenticate", `Bearer realm="Halite"`)
}

// Challenge sets the headers of the 401 that answers a refused request.
func (e *Refusal) Challenge(h http.Header, r *http.Request) {
	Challenge(h, r)
	if e.Reason == ReasonBadCertificate {
		h.Set("Connection", "close") // only a new handshake can show another certificate
	}
}

func refuse(w http.ResponseWriter, r *http.Request, err error) {
	refusal := new(Refusal)
	if errors.As(err, &refusal) && refusal.Status() == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, typeUnavailable, err.Error())
		return
	}
	refusal.Challenge(w.Header(), r)
	writeError(w, http.StatusUnauthorized, TypeUnauthorized, err.Error())
}

// writeError writes an error as Prometheus does.
func writeError(w http.ResponseWriter, code int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// A failed write means that the client is gone.
	_, _ = w.Write(promjson.AppendError(nil, kind, message))
}
