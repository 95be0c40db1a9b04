package querystats

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// CompletedMax is the number of completed queries in the list, as in OpenTSDB.
	CompletedMax = 256
	// queryBytesMax bounds the document of a query. The list has longer queries without their sub-queries.
	queryBytesMax = 16 << 10
)

// List holds running and completed queries. It is safe for concurrent use.
type List struct {
	now       func() time.Time
	mutex     sync.Mutex
	running   []*Query
	completed []*Query // the oldest first
}

// New returns an empty List. now is its clock.
func New(now func() time.Time) *List { return &List{now: now} }

// Client is the sender of a query.
type Client struct {
	// Address is the address of the connection. User is the name of the principal, or "".
	Address, User string
	// Headers are the headers to show.
	Headers map[string]string
}

// Query is a query in the list.
type Query struct {
	list     *List
	client   Client
	document json.RawMessage
	began    time.Time

	// Set once it is completed.
	ended    time.Time
	status   int
	fault    string
	sent     bool
	executed int
	running  int // queries that ran when it ended
	figures  map[string]float64
}

// Begin adds a running query. document is its JSON.
func (l *List) Begin(c Client, document json.RawMessage) *Query {
	if len(document) > queryBytesMax {
		document = json.RawMessage(`{"queries":[],"truncated":true}`)
	}
	q := &Query{list: l, client: c, document: document, began: l.now(), executed: 1}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.running = append(l.running, q)
	return q
}

// Result is the end of a query.
type Result struct {
	// Status is the HTTP status. Fault is the error, or "".
	Status int
	Fault  string
	// Sent means that the whole response was written.
	Sent bool
	// Figures are statistics by OpenTSDB's names. Times are in ms.
	Figures map[string]float64
}

// End moves the query to the completed ones. The list has a query once if the same client sends it again with the same status,
// with the number of its executions.
func (q *Query) End(r Result) {
	l := q.list
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.running = slices.DeleteFunc(l.running, func(other *Query) bool { return other == q })
	q.ended, q.status, q.fault, q.sent, q.running, q.figures = l.now(), r.Status, r.Fault, r.Sent, len(l.running), r.Figures
	for _, other := range l.completed {
		if other.client.Address == q.client.Address && other.status == q.status && string(other.document) == string(q.document) {
			other.executed++
			return
		}
	}
	if len(l.completed) == CompletedMax {
		l.completed = slices.Delete(l.completed, 0, 1)
	}
	l.completed = append(l.completed, q)
}

// Document is the response of /api/stats/query.
type Document struct {
	Completed []Completed `json:"completed"`
	Running   []Running   `json:"running"`
}

// Running is a query that runs.
type Running struct {
	Query   json.RawMessage   `json:"query"`
	Remote  string            `json:"remote"`
	User    *string           `json:"user"`
	Headers map[string]string `json:"headers"`
	// StartMs is its start in ms since 1970. ElapsedMs is its age.
	StartMs   int64   `json:"queryStart"`
	ElapsedMs float64 `json:"elapsed"`
}

// Completed is a query that has ended. Its times are in ms since 1970.
type Completed struct {
	Query     json.RawMessage    `json:"query"`
	Exception string             `json:"exception"`
	Executed  int                `json:"executed"`
	User      *string            `json:"user"`
	Headers   map[string]string  `json:"requestHeaders"`
	Running   int                `json:"numRunningQueries"`
	Response  Response           `json:"httpResponse"`
	StartMs   int64              `json:"queryStartTimestamp"`
	EndMs     int64              `json:"queryCompletedTimestamp"`
	Sent      bool               `json:"sentToClient"`
	Figures   map[string]float64 `json:"stats"`
}

// Response is an HTTP status.
type Response struct {
	Code   int    `json:"code"`
	Reason string `json:"reasonPhrase"`
}

// Document returns the list: the oldest running query first, and the newest completed query first.
func (l *List) Document() Document {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	d := Document{Completed: []Completed{}, Running: []Running{}}
	now := l.now()
	for _, q := range l.running {
		d.Running = append(d.Running, Running{
			Query: q.document, Remote: q.client.Address, User: q.user(), Headers: q.client.Headers, StartMs: q.began.UnixMilli(),
			ElapsedMs: Milliseconds(now.Sub(q.began)),
		})
	}
	for _, q := range slices.Backward(l.completed) {
		d.Completed = append(d.Completed, Completed{
			Query: q.document, Exception: cmp.Or(q.fault, "null"), Executed: q.executed, User: q.user(), Headers: q.client.Headers,
			Running: q.running, Response: Response{q.status, http.StatusText(q.status)}, StartMs: q.began.UnixMilli(),
			EndMs: q.ended.UnixMilli(), Sent: q.sent, Figures: q.figures,
		})
	}
	return d
}

// Milliseconds returns a duration in ms, exact to a microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (q *Query) user() *string {
	if q.client.User == "" {
		return nil
	}
	return &q.client.User
}
