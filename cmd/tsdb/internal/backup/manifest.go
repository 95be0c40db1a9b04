package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

const (
	manifestName    = "manifest.json"
	manifestVersion = 1
	// nameLayout is the form of the name of a backup, which is the time when it began.
	nameLayout = "20060102T150405.000Z"
	// ManifestBytesMaxDefault is the default of Options.ManifestBytesMax. It admits about a million files.
	ManifestBytesMaxDefault = 256 << 20
)

// ErrManifestTooLarge reports a manifest above Options.ManifestBytesMax.
var ErrManifestTooLarge = errors.New("the manifest is too large")

// Manifest describes a backup. Its file is one line of JSON, then the SHA-256 of that line in hexadecimal and a newline.
type Manifest struct {
	Version int `json:"version"`
	// Name is the name of the backup and of its directory.
	Name string `json:"name"`
	// Source is the data directory or the snapshot that was copied, Host its machine.
	Source string `json:"source"`
	Host   string `json:"host"`
	// Tables is false if the backup holds the log only.
	Tables bool `json:"tables"`
	// Files are in the order of their paths.
	Files []File `json:"files"`
}

// File is a file of a backup.
type File struct {
	// Path is relative to the data directory, with slashes.
	Path      string `json:"path"`
	SizeBytes int64  `json:"size"`
	SHA256    string `json:"sha256"`
	// ModTimeNs is the modification time of the source. Table files never change, so a file with equal path, size and time is the
	// same.
	ModTimeNs int64 `json:"mtime_ns"`
}

// Time is when the backup began.
func (m *Manifest) Time() time.Time {
	at, _ := time.Parse(nameLayout, m.Name)
	return at
}

// SizeBytes is the size of all files.
func (m *Manifest) SizeBytes() (sum int64) {
	for i := range m.Files {
		sum += m.Files[i].SizeBytes
	}
	return sum
}

func (m *Manifest) append(dst []byte) ([]byte, error) {
	line, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	line = append(line, '\n')
	sum := sha256.Sum256(line)
	return fmt.Appendf(append(dst, line...), "%x\n", sum), nil
}

func parseManifest(src []byte) (*Manifest, error) {
	line, sumText, found := bytes.Cut(src, []byte("\n"))
	if !found {
		return nil, errors.New("the manifest is cut off")
	}
	sum := sha256.Sum256(src[:len(line)+1])
	if string(sumText) != hex.EncodeToString(sum[:])+"\n" {
		return nil, errors.New("the checksum of the manifest is wrong")
	}
	var m Manifest
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("the manifest is not valid JSON: %w", err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("the manifest has version %d, this program reads %d", m.Version, manifestVersion)
	}
	if !isName(m.Name) || filepath.Base(m.Name) != m.Name {
		return nil, fmt.Errorf("the manifest names the backup %q", m.Name)
	}
	last := ""
	for i := range m.Files {
		f := &m.Files[i]
		if f.Path <= last || strings.Contains(f.Path, `\`) || !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return nil, fmt.Errorf("the manifest has the path %q after %q", f.Path, last)
		}
		if raw, err := hex.DecodeString(f.SHA256); err != nil || len(raw) != sha256.Size || f.SizeBytes < 0 {
			return nil, fmt.Errorf("the manifest has a bad size or checksum for %s", f.Path)
		}
		last = f.Path
	}
	return &m, nil
}

// differs says how a file differs from the manifest.
func (f *File) differs(sizeBytes int64, sum string) string {
	if sizeBytes != f.SizeBytes {
		return fmt.Sprintf("it has %d bytes instead of %d", sizeBytes, f.SizeBytes)
	}
	return fmt.Sprintf("it is damaged: its SHA-256 is %s instead of %s", sum, f.SHA256)
}

// isName reports whether the last element of a path is the name of a backup.
func isName(path string) bool {
	name := filepath.Base(path)
	at, err := time.Parse(nameLayout, name)
	return err == nil && at.Format(nameLayout) == name
}
