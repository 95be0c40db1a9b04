package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed dist
var dist embed.FS

// policy lets the page run its own scripts and styles, and talk to its own server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// indexName is the page. assetsFolder holds all that it loads.
const (
	indexName    = "index.html"
	assetsFolder = "assets"
)

// file is a file of the interface in each encoding.
type file struct {
	contentType  string
	plain        []byte
	brotli, gzip []byte
	tag          string
}

// Files are the files of the interface.
type Files struct{ byName map[string]*file }

// NewFiles reads the embedded files. The error names the file that lacks an encoding or is damaged.
func NewFiles() (*Files, error) { return newFiles(dist) }

func newFiles(tree fs.FS) (*Files, error) {
	f := &Files{byName: make(map[string]*file)}
	names, err := fs.Glob(tree, "dist/*.gz")
	if err != nil {
		return nil, err
	}
	assets, err := fs.Glob(tree, "dist/"+assetsFolder+"/*.gz")
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, assets...) {
		one, err := newFile(tree, strings.TrimSuffix(name, ".gz"))
		if err != nil {
			return nil, fmt.Errorf("ui: %s: %w", name, err)
		}
		f.byName[strings.TrimSuffix(strings.TrimPrefix(name, "dist/"), ".gz")] = one
	}
	if f.byName[indexName] == nil {
		return nil, errors.New("ui: dist has no " + indexName + "; run npm run build in api/ui")
	}
	return f, nil
}

func newFile(tree fs.FS, name string) (*file, error) {
	zipped, err := fs.ReadFile(tree, name+".gz")
	if err != nil {
		return nil, err
	}
	brotli, err := fs.ReadFile(tree, name+".br")
	if err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(plain)
	types := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
	contentType := types[path.Ext(name)]
	if contentType == "" {
		contentType = mime.TypeByExtension(path.Ext(name))
	}
	return &file{contentType: contentType, plain: plain, brotli: brotli, gzip: zipped, tag: hex.EncodeToString(sum[:8])}, nil
}

// Index answers with the page.
func (f *Files) Index(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	f.byName[indexName].serve(w, r)
}

// Asset answers with a file that the page loads; 404 if there is none of that name.
func (f *Files) Asset(w http.ResponseWriter, r *http.Request, name string) {
	one := f.byName[assetsFolder+"/"+name]
	if one == nil {
		http.Error(w, fmt.Sprintf("the web interface has no file %q; reload the page", name), http.StatusNotFound)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	one.serve(w, r)
}

// serve answers with the smallest encoding that the client takes.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	encoding, content := "", f.plain
	switch accepts := r.Header.Get("Accept-Encoding"); {
	case takes(accepts, "br"):
		encoding, content = "br", f.brotli
	case takes(accepts, "gzip"):
		encoding, content = "gzip", f.gzip
	}
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Add("Vary", "Accept-Encoding")
	h.Set("ETag", `"`+f.tag+encoding+`"`)
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// takes reports whether the header Accept-Encoding lists an encoding with a weight above zero.
func takes(header, encoding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), encoding) {
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(weight), "q="), "0.") != "" || weight == ""
		}
	}
	return false
}
