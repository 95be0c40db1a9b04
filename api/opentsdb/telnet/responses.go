package telnet

import (
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// responses sends the responses of a connection in a separate goroutine, which starts with the first response. So the server also
// serves a client that does not read the responses.
type responses struct {
	conn   net.Conn
	unsent prometheus.Counter
	once   sync.Once
	queue  chan []byte
	done   chan struct{}
	// failed is closed when the client accepts no more responses.
	failed chan struct{}
}

// answersMax bounds the responses that wait.
const responsesMax = 8

func newResponses(conn net.Conn, unsent prometheus.Counter) *responses {
	return &responses{
		conn: conn, unsent: unsent,
		queue: make(chan []byte, responsesMax), done: make(chan struct{}), failed: make(chan struct{}),
	}
}

func (a *responses) run() {
	defer close(a.done)
	broken := false
	for text := range a.queue {
		if broken {
			a.unsent.Inc()
			continue
		}
		if _, err := a.conn.Write(text); err != nil {
			broken = true
			a.unsent.Inc()
			close(a.failed)
		}
	}
}

// send queues a response. It drops the response if the client is slow.
func (a *responses) send(text []byte) {
	a.once.Do(func() { go a.run() })
	select {
	case a.queue <- text:
	default:
		a.unsent.Inc()
	}
}

// sendAll queues a response for which the client waits. It returns false if the client accepts no more responses.
func (a *responses) sendAll(text []byte) bool {
	a.once.Do(func() { go a.run() })
	select {
	case a.queue <- text:
		return true
	case <-a.failed:
		return false
	}
}

// close sends the queued responses.
func (a *responses) close() {
	started := true
	a.once.Do(func() { started = false })
	close(a.queue)
	if started {
		<-a.done
	}
}
