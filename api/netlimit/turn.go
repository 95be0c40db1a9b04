package netlimit

import (
	"context"

	"halite/storage/principal"
)

// turnBytes is the size of a piece of an answer that is sent without a turn.
const turnBytes = 32 << 10

// TurnWriter gathers an answer while a request holds a turn of its tenant, and sends pieces of it while it holds none, because a
// client may be slow. A nil TurnWriter has nothing to send.
type TurnWriter struct {
	turn   *principal.Turn
	ctx    context.Context
	send   func(p []byte) (int, error)
	unsent []byte
}

// NewTurnWriter takes a turn for a request. It returns nil if the request needs none, or if ctx ends before. Call Close.
func NewTurnWriter(ctx context.Context, send func(p []byte) (int, error)) *TurnWriter {
	turn, err := principal.From(ctx).BeginTurn(ctx)
	if turn == nil || err != nil {
		return nil
	}
	return &TurnWriter{turn: turn, ctx: ctx, send: send}
}

// Write adds to the answer. It sends a piece of it if there is enough.
func (t *TurnWriter) Write(p []byte) (int, error) {
	t.unsent = append(t.unsent, p...)
	if len(t.unsent) < turnBytes {
		return len(p), nil
	}
	if err := t.flush(); err != nil {
		return 0, err
	}
	return len(p), t.turn.Resume(t.ctx)
}

// flush sends what was gathered, without the turn.
func (t *TurnWriter) flush() error {
	t.turn.Pause()
	if len(t.unsent) == 0 {
		return nil
	}
	_, err := t.send(t.unsent)
	t.unsent = t.unsent[:0]
	return err
}

// Close sends the rest and ends the turn.
func (t *TurnWriter) Close() error {
	if t == nil {
		return nil
	}
	return t.flush()
}
