package measure

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

// DiskUsage is the size of a data directory in allocated bytes. A file with several names counts once.
type DiskUsage struct {
	BeforeBytes int64 `json:"before_bytes"`
	AfterBytes  int64 `json:"after_bytes"`
	// FlushedBytes is the size after the call of the flush URL. It is 0 without a flush URL.
	FlushedBytes int64 `json:"flushed_bytes,omitempty"`
	// PerSample is the growth divided by the acknowledged samples. It uses FlushedBytes if there is a flush URL.
	PerSample float64 `json:"bytes_per_sample"`
}

func (d *DiskUsage) setPerSample(samples int64) {
	if samples > 0 {
		end := d.AfterBytes
		if d.FlushedBytes > 0 {
			end = d.FlushedBytes
		}
		d.PerSample = float64(end-d.BeforeBytes) / float64(samples)
	}
}

// dirBytes returns the allocated bytes of all files in a directory. It ignores files that disappear during the
// walk, because servers delete files all the time.
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

const (
	// flushTimeout bounds the call of a flush URL.
	flushTimeout = 10 * time.Minute
	// flushErrorBytesMax bounds the part of a flush response that an error shows.
	flushErrorBytesMax = 300
)

// flush calls the flush URL, which moves the data in the server's memory to its files.
func flush(ctx context.Context, s *Server) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.FlushURL, nil)
	if err != nil {
		return fmt.Errorf("flush URL: %w", err)
	}
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("flush URL: %w", err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, flushErrorBytesMax)) // only for the message
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("flush URL: status %d: %s", resp.StatusCode, text)
	}
	return nil
}
