package flush

import (
	"context"
	"fmt"
)

// Snapshot copies log and tables so that the copies belong together. All samples logged before the call are in one of them,
// and no later sample is in the log. tables copies the tables; nil skips them. logDir must not exist. No flush, checkpoint
// or deletion runs meanwhile; writes continue.
func (f *Flusher) Snapshot(ctx context.Context, logDir string, tables func(ctx context.Context) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest, err := f.log.Rotate()
	if err != nil {
		return fmt.Errorf("rotate the log: %w", err)
	}
	// Rows reach the tables and leave the log only under the lock. So the copied log has all samples that the copied
	// tables lack.
	if tables != nil {
		if err := tables(ctx); err != nil {
			return fmt.Errorf("copy the tables: %w", err)
		}
	}
	if err := f.log.Checkpoint(logDir, newest); err != nil {
		return fmt.Errorf("copy the log: %w", err)
	}
	return nil
}
