package ui

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// zipped returns text compressed by gzip.
func zipped(t *testing.T, text string) *fstest.MapFile {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return &fstest.MapFile{Data: out.Bytes()}
}

// TestEncodings: each client gets an encoding that it accepts. A repeated request with the ETag of an encoding gets
// 304.
func TestEncodings(t *testing.T) {
	files, err := newFiles(fstest.MapFS{
		"dist/index.html.gz": zipped(t, "<p>"), "dist/index.html.br": {Data: []byte("brotli")},
		"dist/assets/a.js.gz": zipped(t, "a()"), "dist/assets/a.js.br": {Data: []byte("br of a")},
	})
	require.NoError(t, err)
	for _, c := range []struct{ accepts, encoding, content string }{
		{"", "", "a()"}, {"gzip, deflate, br", "br", "br of a"}, {"gzip;q=0.5", "gzip", ""}, {"br;q=0, identity", "", "a()"},
		{"BR ; q=1.0", "br", "br of a"}, {"br;q=0.0", "", "a()"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", c.accepts)
		w := httptest.NewRecorder()
		files.Asset(w, r, "a.js")
		require.Equal(t, c.encoding, w.Header().Get("Content-Encoding"), c.accepts)
		require.Equal(t, "text/javascript; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
		if c.content != "" {
			require.Equal(t, c.content, w.Body.String())
		}
		r.Header.Set("If-None-Match", w.Header().Get("ETag"))
		w = httptest.NewRecorder()
		files.Asset(w, r, "a.js")
		require.Equal(t, http.StatusNotModified, w.Code)
	}
}

// TestDamagedFiles: a tree that lacks an encoding or the page is refused.
func TestDamagedFiles(t *testing.T) {
	_, err := newFiles(fstest.MapFS{})
	require.ErrorContains(t, err, "no index.html")
	_, err = newFiles(fstest.MapFS{"dist/index.html.gz": zipped(t, "x")})
	require.ErrorContains(t, err, "index.html.br")
	_, err = newFiles(fstest.MapFS{"dist/index.html.gz": {Data: []byte("x")}, "dist/index.html.br": {}})
	require.ErrorContains(t, err, "dist/index.html.gz")
}

// TestEmbedded: the committed files are whole.
func TestEmbedded(t *testing.T) {
	files, err := NewFiles()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	files.Index(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Contains(t, w.Body.String(), `<script type="module"`)
}
