package telnet

import (
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// answers sends the answers of a connection in a separate goroutine, which starts with the first answer. So the server also
// serves a client that does not read the answers.
type answers struct {
	conn   net.Conn
	unsent prometheus.Counter
	once   sync.Once
	queue  chan []byte
	done   chan struct{}
	// failed is closed when the client accepts no more answers.
	failed chan struct{}
}

// answersMax bounds the answers that wait.
const answersMax = 8

func newAnswers(conn net.Conn, unsent prometheus.Counter) *answers {
	return &answers{
		conn: conn, unsent: unsent,
		queue: make(chan []byte, answersMax), done: make(chan struct{}), failed: make(chan struct{}),
	}
}

func (a *answers) run() {
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

// send queues an answer. It drops the answer if the client is slow.
func (a *answers) send(text []byte) {
	a.once.Do(func() { go a.run() })
	select {
	case a.queue <- text:
	default:
		a.unsent.Inc()
	}
}

// sendAll queues an answer for which the client waits. It returns false if the client accepts no more answers.
func (a *answers) sendAll(text []byte) bool {
	a.once.Do(func() { go a.run() })
	select {
	case a.queue <- text:
		return true
	case <-a.failed:
		return false
	}
}

// close sends the queued answers.
func (a *answers) close() {
	started := true
	a.once.Do(func() { started = false })
	close(a.queue)
	if started {
		<-a.done
	}
}
