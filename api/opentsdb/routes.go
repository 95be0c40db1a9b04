package opentsdb

import (
	"net/http"
	"slices"

	"halite/api/receiver/opentsdb"
)

// Routes are the handlers of one path by their methods.
type Routes map[string]http.Handler

// ServeHTTP passes a request to the handler of its effective method. For another method it calls any of the handlers, which
// refuses the request.
func (routes Routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, err := Method(r)
	if err != nil {
		response := opentsdb.Failure(http.StatusMethodNotAllowed, err.Error(), "")
		response.Write(w)
		return
	}
	if method != r.Method {
		r = withURL(r, r.URL)
		r.Method = method
	}
	if handler := routes[method]; handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	methods := make([]string, 0, len(routes))
	for known := range routes {
		methods = append(methods, known)
	}
	routes[slices.Min(methods)].ServeHTTP(w, r)
}
