package loadtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"
)

// DiskUse is the size of a data directory in allocated bytes; files with several names count once.
type DiskUse struct {
	BeforeBytes int64 `json:"before_bytes"`
	AfterBytes  int64 `json:"after_bytes"`
	// FlushedBytes is taken after the target's flush URL was called; 0 if it has none.
	FlushedBytes int64 `json:"flushed_bytes,omitempty"`
	// PerSample is what was added, flushed if possible, for each acknowledged sample.
	PerSample float64 `json:"bytes_per_sample"`
}

func (d *DiskUse) divide(samples int64) {
	if samples > 0 {
		end := d.AfterBytes
		if d.FlushedBytes > 0 {
			end = d.FlushedBytes
		}
		d.PerSample = float64(end-d.BeforeBytes) / float64(samples)
	}
}

// dirBytes adds up a directory. Files that go away meanwhile are left out, as servers delete files all the time.
func dirBytes(dir string) (int64, error) {
	sum := int64(0)
	seen := make(map[fileID]bool)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil {
			return err
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		bytes, id, linked := allocated(info)
		if linked && seen[id] {
			return nil
		}
		seen[id] = linked
		sum += bytes
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("size of the data directory: %w", err)
	}
	return sum, nil
}

// flushTimeout bounds the call of a flush URL.
const flushTimeout = 10 * time.Minute

// flush asks a target to move what it holds in memory to its files.
func flush(ctx context.Context, t *Target) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.FlushURL, nil)
	if err != nil {
		return fmt.Errorf("flush URL: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("flush URL: %w", err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax)) // only for the message
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("flush URL: %w", &statusError{resp.StatusCode, string(text)})
	}
	return nil
}
