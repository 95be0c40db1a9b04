package netlimit

import (
	"errors"
	"net"
	"sync"
	"time"
)

// listener is a net.Listener whose connections a Limiter counts.
type listener struct {
	net.Listener
	limiter *Limiter
	once    sync.Once
	closed  chan struct{}
}

// Bounds of the pause after a failure to accept.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// slotPoll is the interval at which a waiting connection checks for an idle one to replace.
const slotPoll = 20 * time.Millisecond

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for pause := acceptPauseMin; ; pause = min(2*pause, acceptPauseMax) {
		nc, err := l.Listener.Accept()
		if err == nil {
			return l.admit(nc)
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		l.limiter.metrics.acceptErrors.Inc()
		l.limiter.opts.Logger.Warn("cannot accept a connection; trying again", "err", err, "after", pause)
		select {
		case <-time.After(pause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// admit waits for a slot for an accepted connection.
func (l *listener) admit(nc net.Conn) (net.Conn, error) {
	c := l.limiter
	for {
		select {
		case c.slots <- struct{}{}:
			return c.add(nc), nil
		default:
			_ = c.closeIdle() || c.endSlowBody() || c.endSlowResponse()
		}
		select {
		case c.slots <- struct{}{}:
			return c.add(nc), nil
		case <-l.closed:
			return nil, errors.Join(net.ErrClosed, nc.Close())
		case <-time.After(slotPoll):
		}
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
