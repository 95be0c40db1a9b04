// Package shortcut answers small requests on the goroutine of their connection and leaves all others to net/http.
//
// For every request net/http starts a goroutine that waits for the client to go away, and stops it again. Each wakes
// another processor, which finds little to do; together they cost more than the look-up of a label's values. Here a
// connection is read by one goroutine, which parses, calls the handler and writes the answer in one go. Whether clients
// of longer requests are still there is asked from time to time, for all of them at once. On Linux sockets are read and
// written past Go's scheduler, whose monitor thread would otherwise wake for each request; it is woken with the watch.
//
// A [Server] stands in front of an http.Server. A request is taken if it came in one piece, is plain HTTP/1.1 (GET, or
// POST with a length; no upgrades, no expectations, no transfer coding, nothing but printable ASCII in its head) and its
// path begins with one of [Options.Paths]. Anything else, malformed requests too, is handed to the http.Server together
// with its connection, which stays there: it sees the very bytes that were sent, and answers them by its own rules.
//
// Invariants:
//
//   - Requests are parsed by net/http, and handlers see what they would see there: context, header, body, addresses.
//     Flushing works; hijacking, trailers, informational answers and deadlines by http.ResponseController do not.
//   - The context of a request ends at latest two [Options.WatchEvery] after its client went away, and with the request.
//   - The timeouts of the http.Server for heads, bodies and unused connections hold, the last with a tolerance of a
//     quarter.
//   - Requests that compute for long on all processors let others in, as they do in net/http: the scheduler's monitor
//     sleeps no longer than the watch while there are requests.
//   - Shutdown lets requests under way finish, as that of the http.Server does.
//
// The hooks of the http.Server for connections (ConnState, ConnContext, BaseContext) see only what was handed over; its
// WriteTimeout, protocols and TLS do not apply to what was not, so a Server refuses to be made with a WriteTimeout.
//
// On systems without a way to look at a socket without reading from it everything is handed over.
package shortcut
