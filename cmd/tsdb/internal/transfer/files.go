package transfer

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"halite/api/receiver"
	"halite/api/receiver/csv"
	"halite/api/receiver/exposition"
	"halite/api/receiver/influx"
	"halite/api/receiver/jsonl"
	"halite/api/receiver/opentsdb"
)

// Formats of files.
const (
	FormatJSONL       = "jsonl"
	FormatCSV         = "csv"
	FormatInflux      = "influx"
	FormatOpenMetrics = "openmetrics"
	FormatOpenTSDB    = "opentsdb"
)

// SpecialChars is the parameter of FormatOpenTSDB with the characters that names may have besides OpenTSDB's.
const SpecialChars = "special_chars"

// Stdin is the path of standard input.
const Stdin = "-"

// Pieces says how a file is read.
type Pieces struct {
	// SizeBytes is the size of the pieces that are read and stored at once.
	SizeBytes int64
	// LineBytesMax bounds a line. It is at most LineBytesLimit.
	LineBytesMax int64
}

// LineBytesLimit is the largest bound of a line. Keys of a part have positions of 32 bits.
const LineBytesLimit = 1 << 30

func (p *Pieces) validate() error {
	if p.LineBytesMax < 1 || p.LineBytesMax > LineBytesLimit {
		return fmt.Errorf("--max-line-bytes is %d, it must be from 1 to %d", p.LineBytesMax, LineBytesLimit)
	}
	if p.SizeBytes < 1 || p.SizeBytes > p.LineBytesMax {
		return fmt.Errorf("--piece-bytes is %d, it must be from 1 to --max-line-bytes, which is %d", p.SizeBytes, p.LineBytesMax)
	}
	return nil
}

// File is a file with samples as text. It is compressed if its name ends in .gz.
type File struct {
	path, format string
	// Influx names the series of FormatInflux.
	Influx influx.Options
	// params are the parameters of the endpoint that takes the same format.
	params url.Values
	pieces Pieces
	stdin  io.Reader
	nowMs  int64 // time of samples that have none
}

// OpenFile returns a file as a source. Params are the parameters of the endpoint that takes the same format over HTTP.
func OpenFile(path, format string, params url.Values, pieces Pieces) (*File, error) {
	if err := pieces.validate(); err != nil {
		return nil, err
	}
	f := &File{
		path: path, format: format, params: params, pieces: pieces, stdin: os.Stdin, Influx: influx.DefaultOptions(),
		nowMs: time.Now().UnixMilli(),
	}
	x, err := f.request()
	if err != nil {
		return nil, err
	}
	if err := x.Check(); err != nil {
		return nil, err
	}
	if path == Stdin {
		return f, nil
	}
	if f.path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return f, file.Close()
}

// Name implements Source.
func (f *File) Name() string { return f.format + " " + f.path }

// Close implements Source.
func (f *File) Close() error { return nil }

// Rereadable reports whether the file can be read a second time.
func (f *File) Rereadable() bool { return f.path != Stdin }

// Size implements Source. It reads the whole file, to find its oldest sample.
func (f *File) Size(ctx context.Context) (Size, error) {
	s := Size{Unit: "samples", OldestMs: -1}
	if !f.Rereadable() {
		return s, nil
	}
	err := f.Parts(ctx, Position{}, func(p *Part) error {
		defer p.release()
		if err := ctx.Err(); err != nil {
			return err
		}
		s.Total = p.Done
		for p.Rewind(0); p.Next(); {
			series := p.Series()
			for n := range series.Samples {
				s.note(series.Samples[n].TsMs)
			}
			for n := range series.Histograms {
				s.note(series.Histograms[n].TsMs)
				s.Histograms = true
			}
		}
		return nil
	})
	return s, err
}

// note records the time of a sample.
func (s *Size) note(tsMs int64) {
	if s.OldestMs < 0 || tsMs < s.OldestMs {
		s.OldestMs = max(0, tsMs)
	}
}

// request returns the parser of the format.
func (f *File) request() (receiver.Request, error) {
	r, err := http.NewRequest(http.MethodPost, "http://file/?"+f.params.Encode(), nil)
	if err != nil {
		return nil, err
	}
	now := func() time.Time { return time.UnixMilli(f.nowMs) }
	switch f.format {
	case FormatJSONL:
		return jsonl.Import(r), nil
	case FormatCSV:
		return csv.Import(now)(r), nil
	case FormatInflux:
		return influx.V1(now, func() influx.Options { return f.Influx })(r), nil
	case FormatOpenTSDB:
		names, err := opentsdb.NewNames(f.params.Get(SpecialChars), opentsdb.TagsMaxDefault)
		if err != nil {
			return nil, err
		}
		return opentsdb.Text(names), nil
	}
	r.Header.Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	return exposition.Import(now)(r), nil
}

// open returns a reader of the text.
func (f *File) open() (io.ReadCloser, error) {
	if !f.Rereadable() {
		return io.NopCloser(f.stdin), nil
	}
	file, err := os.Open(f.path)
	if err != nil || !strings.HasSuffix(f.path, ".gz") {
		return file, err
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.path, err), file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{z, file}, nil
}

// Parts implements Source. A part is a piece of whole lines.
func (f *File) Parts(ctx context.Context, from Position, visit func(*Part) error) (err error) {
	text, err := f.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	pieces := receiver.NewPieces(text, nil, f.pieces.SizeBytes, f.pieces.LineBytesMax, func(int64) bool { return true })
	switch f.format {
	case FormatCSV:
		pieces.Whole = csv.WholeRows
	case FormatInflux:
		pieces.Whole = influx.WholeLines
	}
	f.nowMs = cmp.Or(from.NowMs, f.nowMs)
	reader := &fileReader{file: f, at: Position{NowMs: f.nowMs}}
	for done := int64(0); ; {
		piece, err := pieces.Next()
		if err != nil {
			return fmt.Errorf("%s: after line %d: %w", f.path, reader.at.Lines, err)
		}
		if len(piece) == 0 {
			return reader.end()
		}
		p := newPart()
		if err := reader.parse(bytes.Clone(piece), p); err != nil {
			return fmt.Errorf("%s: after line %d: %w", f.path, p.linesBefore, err)
		}
		if p.After = reader.at; reader.at.Bytes <= from.Bytes {
			p.release() // an earlier run has written this part
			continue
		}
		done += int64(p.Count())
		p.Done = done
		if err := visit(p); err != nil {
			return err
		}
	}
}

// fileReader parses the pieces of a file.
type fileReader struct {
	file *File
	at   Position
	// request goes on from piece to piece in formats whose parser allows that.
	request receiver.Request
	// family holds the lines of OpenMetrics that describe the current metric.
	family []byte
	metric string
	// ended is set after the line that ends OpenMetrics.
	ended bool
}

// errCut means that a text of OpenMetrics lacks its last line.
var errCut = errors.New("the text does not end with # EOF, so it may be cut off")

// end checks the end of the file.
func (r *fileReader) end() error {
	if r.file.format == FormatOpenMetrics && !r.ended {
		return fmt.Errorf("%s: after line %d: %w", r.file.path, r.at.Lines, errCut)
	}
	return nil
}

// parse reads the next piece.
func (r *fileReader) parse(piece []byte, p *Part) error {
	p.linesBefore = r.at.Lines
	r.at.Bytes += int64(len(piece))
	r.at.Lines += int64(bytes.Count(piece, []byte{'\n'}))
	if r.request == nil || r.file.format == FormatOpenMetrics {
		x, err := r.file.request()
		if err != nil {
			return err
		}
		r.request = x
	}
	switch r.file.format {
	case FormatJSONL, FormatCSV, FormatOpenTSDB:
		p.linesBefore = 0 // the parser continues to count lines
	case FormatOpenMetrics:
		r.ended = bytes.HasSuffix(bytes.TrimRight(piece, "\n"), []byte("# EOF"))
		if !r.ended && piece[len(piece)-1] != '\n' {
			return errCut // the last line would be a wrong sample
		}
		whole := append(bytes.Clone(r.family), piece...)
		r.describe(piece)
		if whole = bytes.TrimSuffix(bytes.TrimRight(whole, "\n"), []byte("# EOF")); len(whole) > 0 {
			whole = append(bytes.TrimRight(whole, "\n"), '\n')
		}
		piece = append(whole, "# EOF\n"...)
	}
	return r.request.Parse(piece, &p.Batch)
}

// describe keeps the lines that describe the last metric of a piece. They are put in front of the next piece.
func (r *fileReader) describe(piece []byte) {
	for line := range bytes.Lines(piece) {
		if line[0] != '#' {
			continue
		}
		words := strings.Fields(string(line))
		if len(words) < 3 {
			continue
		}
		if words[2] != r.metric {
			r.metric, r.family = words[2], nil
		}
		r.family = append(r.family, line...)
	}
}
