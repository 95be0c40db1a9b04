package measure

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecorder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 100_000), 0o600))
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	server := Server{PID: os.Getpid(), Dir: dir}
	var notes []string
	r := NewRecorder(server, func(format string, _ ...any) { notes = append(notes, format) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c"), make([]byte, 1_000_000), 0o600))
	r.EndLoad()
	use, disk := r.Finish(t.Context(), 1_000_000)
	require.InDelta(t, 1.0, disk.PerSample, 0.02)
	require.InDelta(t, 100_000, disk.BeforeBytes, 8192, "a file with two names counts once")
	if runtime.GOOS == "linux" {
		require.Empty(t, notes)
		require.Positive(t, use.RSSBytes)
		fine, ok := processCPU(os.Getpid())
		require.True(t, ok)
		coarse, err := os.ReadFile("/proc/self/stat")
		require.NoError(t, err)
		ticks, err := parseStat(string(coarse))
		require.NoError(t, err)
		require.InDelta(t, ticks, fine, 0.5+ticks/10, "both clocks agree")
		require.GreaterOrEqual(t, use.PeakEverBytes, use.RSSBytes)
	}
	flushes := 0
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { flushes++ }))
	defer endpoint.Close()
	for n, dir := range []string{"", dir} {
		_, disk := NewRecorder(Server{Dir: dir, FlushURL: endpoint.URL}, t.Logf).Finish(t.Context(), 1)
		require.Equal(t, n+1, flushes, "even if the directory is on another machine")
		require.Equal(t, dir != "", disk != nil && disk.FlushedBytes > 0)
	}
	server = Server{PID: 1 << 30, Dir: filepath.Join(dir, "nowhere")}
	r = NewRecorder(server, func(format string, _ ...any) { notes = append(notes, format) })
	r.EndLoad()
	use, disk = r.Finish(t.Context(), 1)
	require.Nil(t, use)
	require.Nil(t, disk)
	require.NotEmpty(t, notes)
}
