package netlimit

import (
	"context"

	"halite/storage/principal"
)

// sendBytes is the size of the pieces of a response that a SlotWriter sends.
const sendBytes = 32 << 10

// SlotWriter buffers a response while a request holds a CPU slot of its tenant. It releases the slot while it sends, because a
// client may be slow. A nil SlotWriter has nothing to send.
type SlotWriter struct {
	slot   *principal.CPUSlot
	ctx    context.Context
	send   func(p []byte) (int, error)
	unsent []byte
}

// NewSlotWriter acquires a CPU slot for a request. It returns nil if the request needs none, or if ctx ends before. Call Close.
func NewSlotWriter(ctx context.Context, send func(p []byte) (int, error)) *SlotWriter {
	slot, err := principal.From(ctx).AcquireCPU(ctx)
	if slot == nil || err != nil {
		return nil
	}
	return &SlotWriter{slot: slot, ctx: ctx, send: send}
}

// Write adds to the response, and sends the buffer once it has sendBytes.
func (w *SlotWriter) Write(p []byte) (int, error) {
	w.unsent = append(w.unsent, p...)
	if len(w.unsent) < sendBytes {
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return len(p), w.slot.Acquire(w.ctx)
}

// flush releases the slot and sends the buffer.
func (w *SlotWriter) flush() error {
	w.slot.Release()
	if len(w.unsent) == 0 {
		return nil
	}
	_, err := w.send(w.unsent)
	w.unsent = w.unsent[:0]
	return err
}

// Close releases the slot and sends the rest.
func (w *SlotWriter) Close() error {
	if w == nil {
		return nil
	}
	return w.flush()
}
