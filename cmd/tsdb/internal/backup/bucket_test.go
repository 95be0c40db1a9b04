package backup

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"halite/storage"
)

const secret = "wJalrXUtnFEMI-secret"

// clock is the time of the service.
type clock struct{ seconds atomic.Int64 }

func (c *clock) Now() time.Time                  { return time.Unix(1_800_000_000+c.seconds.Load(), 0).UTC() }
func (c *clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// faults lets requests fail.
type faults struct {
	inner http.RoundTripper
	mu    sync.Mutex
	// fail decides about a request before it is sent; nil lets all pass.
	fail func(n int, r *http.Request) error
	// cut shortens the first body of each object to this number of bytes; 0 does not.
	cut  int
	seen map[string]bool
	n    int
}

func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if f.fail != nil {
		if err := f.fail(f.n, r); err != nil {
			if r.Body != nil {
				r.Body.Close()
			}
			return nil, err
		}
	}
	resp, err := f.inner.RoundTrip(r)
	if err == nil && f.cut > 0 && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/"+filesKey) && !f.seen[r.URL.Path] {
		f.seen[r.URL.Path] = true
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(resp.Body, int64(f.cut)), broken{}), resp.Body}
	}
	return resp, err
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// service is S3-compatible storage in this process, with the bucket "backups".
type service struct {
	opts   Options
	clock  *clock
	faults *faults
	store  gofakes3.Backend
}

const location = "s3://backups/halite/a"

func newService(t *testing.T) *service {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	s := &service{clock: &clock{}}
	s.store = s3mem.New(s3mem.WithTimeSource(s.clock))
	require.NoError(t, s.store.CreateBucket("backups"))
	server := httptest.NewServer(gofakes3.New(s.store, gofakes3.WithTimeSource(s.clock), gofakes3.WithTimeSkewLimit(0)).Server())
	t.Cleanup(server.Close)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	s.faults = &faults{inner: transport, seen: map[string]bool{}}
	s.opts = Options{S3: S3Options{Endpoint: server.URL, Region: "us-east-1", Transport: s.faults, Attempts: 1, PartBytes: 5 << 20}}
	return s
}

// keys lists the objects whose keys contain a part.
func (s *service) keys(t *testing.T, part string) (keys []string) {
	t.Helper()
	list, err := s.store.ListBucket("backups", nil, gofakes3.ListBucketPage{})
	require.NoError(t, err)
	for _, o := range list.Contents {
		if strings.Contains(o.Key, part) {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

func (s *service) put(t *testing.T, key, content string) {
	t.Helper()
	_, err := s.store.PutObject("backups", key, map[string]string{}, strings.NewReader(content), int64(len(content)), nil)
	require.NoError(t, err)
}

func requireWhole(t *testing.T, r *Repository, m *Manifest) {
	t.Helper()
	damage, err := r.Verify(t.Context(), m, nil)
	require.NoError(t, err)
	require.Empty(t, damage)
}

// TestLifeOfBackupsInBucket makes, verifies, restores and prunes backups in a bucket, with a file of several parts.
func TestLifeOfBackupsInBucket(t *testing.T) {
	s, dir := newService(t), source(t)
	write(t, filepath.Join(dir, "tables/tree/000005.sst"), strings.Repeat("large", 12<<18))
	r := openAt(t, location, s.opts)
	first := create(t, r, dir)
	require.Zero(t, first.SharedBytes)
	require.Len(t, s.keys(t, "halite/a/files/"), 7)

	write(t, filepath.Join(dir, "wal/00000002.wal"), "more")
	second := create(t, r, dir)
	require.Equal(t, int64(4), second.CopiedBytes)
	requireWhole(t, r, first.Manifest)
	requireWhole(t, r, second.Manifest)
	require.Equal(t, []string{first.Manifest.Name, second.Manifest.Name}, names(t, r))

	other := create(t, openAt(t, "s3://backups/halite", s.opts), dir)
	require.Positive(t, other.CopiedBytes, "another prefix shares nothing")
	s.put(t, "halite/a/files/"+strings.Repeat("ab", 32), "of an upload without backup")
	removed, err := r.Prune(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, []string{first.Manifest.Name}, removed)
	require.Len(t, s.keys(t, "halite/a/files/"), 8)
	requireWhole(t, r, second.Manifest)
	require.Empty(t, s.keys(t, "locks/"))

	found, err := r.Find(t.Context(), "")
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "new")
	s.faults.cut = 1000 // the connection breaks once in each file
	r = openAt(t, location, s.opts)
	require.Error(t, r.Restore(t.Context(), found, to, nil))
	require.NoDirExists(t, to)
	s.opts.S3.Attempts = 3
	clear(s.faults.seen)
	require.NoError(t, openAt(t, location, s.opts).Restore(t.Context(), found, to, nil))
	restored := contents(t, to)
	require.Len(t, restored, 8)
	require.Equal(t, strings.Repeat("large", 12<<18), restored["tables/tree/000005.sst"])
	require.NotEmpty(t, s.faults.seen)
}

// TestDamageInBucketIsNamed damages and removes objects. Nothing is pruned while the needs of a backup are unknown.
func TestDamageInBucketIsNamed(t *testing.T) {
	s, dir := newService(t), source(t)
	r := openAt(t, location, s.opts)
	m := create(t, r, dir).Manifest
	for _, f := range m.Files {
		switch f.Path {
		case "wal/watermark":
			s.put(t, "halite/a/files/"+f.SHA256, "marK")
		case "tables/TABLES":
			_, err := s.store.DeleteObject("backups", "halite/a/files/"+f.SHA256)
			require.NoError(t, err)
		}
	}
	s.put(t, "halite/a/"+m.Name+"/notes.txt", "mine")
	damage, err := r.Verify(t.Context(), m, nil)
	require.NoError(t, err)
	require.Equal(t, "[{tables/TABLES the file is missing}", fmt.Sprint(damage)[:len("[{tables/TABLES the file is missing}")])
	require.Contains(t, fmt.Sprint(damage), "{wal/watermark it is damaged: its SHA-256 is")
	require.Contains(t, fmt.Sprint(damage), "{notes.txt the manifest does not name it}")
	err = r.Restore(t.Context(), m, filepath.Join(t.TempDir(), "new"), nil)
	require.Regexp(t, "tables/TABLES|wal/watermark", err.Error(), "workers race to the first damaged file")

	next := create(t, r, dir)
	require.Equal(t, int64(len("records")), next.CopiedBytes, "a lost object is copied again")
	s.put(t, "halite/a/"+m.Name+"/"+manifestName, "{}")
	files := s.keys(t, "/files/")
	create(t, r, dir)
	_, err = r.Prune(t.Context(), 1)
	require.ErrorContains(t, err, "it is unknown which files backup "+m.Name+" needs")
	require.Equal(t, files, s.keys(t, "/files/"))

	opts := s.opts
	opts.ManifestBytesMax = 10
	_, err = openAt(t, location, opts).Find(t.Context(), "")
	require.ErrorIs(t, err, ErrManifestTooLarge)
	_, _, err = openAt(t, "s3://nobody/halite", s.opts).List(t.Context())
	require.ErrorContains(t, err, "the bucket does not exist")
}

// errKilled is an error after which the client of S3 does not wait.
var errKilled = x509.UnknownAuthorityError{}

// TestCommandsKilledAtEachRequest lets a command die at its n-th request, for each n: a create, then a prune. Nothing that is
// listed lacks a file, and the next command succeeds when the lock has ended.
func TestCommandsKilledAtEachRequest(t *testing.T) {
	s, dir := newService(t), source(t)
	write(t, filepath.Join(dir, "tables/tree/000004.sst"), "small")
	s.opts.S3.Concurrency = 1
	r := openAt(t, location, s.opts)
	r.backend.(*bucket).opts.PartBytes = 1000 // the service of this test takes small parts
	create(t, r, dir)
	run := func(step string, n int, command func() error) (done bool) {
		t.Helper()
		s.faults.n = 0
		s.faults.fail = func(at int, _ *http.Request) error {
			if at >= n {
				return errKilled
			}
			return nil
		}
		err := command()
		s.faults.fail = nil
		if done = err == nil; !done {
			require.ErrorIs(t, err, errKilled)
		}
		backups, _, err := r.List(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, backups)
		stored := s.keys(t, "/files/")
		for _, e := range backups {
			require.NoError(t, e.Err)
			for _, f := range e.Manifest.Files {
				require.Contains(t, stored, "halite/a/files/"+f.SHA256, "%s, killed at request %d: %s", step, n, f.Path)
			}
		}
		s.clock.seconds.Add(600)
		return done
	}
	killed := 0
	for n, created, pruned := 1, false, false; !created || !pruned; n++ {
		write(t, filepath.Join(dir, "wal/00000009.wal"), fmt.Sprint("content ", n))
		write(t, filepath.Join(dir, "tables/tree/000006.sst"), strings.Repeat(fmt.Sprintf("%4d", n), 400))
		created = run("create", n, func() error {
			_, err := r.Create(t.Context(), Source{Dir: dir}, nil)
			return err
		}) || created
		pruned = run("prune", n, func() error {
			_, err := r.Prune(t.Context(), 1)
			return err
		}) || pruned
		killed++
		require.Less(t, n, 60)
	}
	t.Logf("%d kills of each command", killed)
	require.Greater(t, killed, 12)
	create(t, r, dir)
	_, err := r.Prune(t.Context(), 1)
	require.NoError(t, err)
	left, err := r.Find(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, s.keys(t, "/files/"), len(left.Files), "nothing of killed commands is left")
	requireWhole(t, r, left)
	require.Empty(t, s.keys(t, "locks/"))
	require.Empty(t, s.keys(t, partialSuffix))
}

// TestLockOfBucket: one command at a time changes a bucket. The lock of a killed command ends. A command without lock stops.
func TestLockOfBucket(t *testing.T) {
	s, dir := newService(t), source(t)
	r := openAt(t, location, s.opts)
	ctx, release, err := r.backend.Lock(t.Context())
	require.NoError(t, err)
	second := openAt(t, location, s.opts)
	_, err = second.Create(t.Context(), Source{Dir: dir}, nil)
	require.ErrorIs(t, err, storage.ErrLocked)
	require.ErrorContains(t, err, "if that command was killed, its lock ends in 5m0s")
	require.Len(t, s.keys(t, "locks/"), 1)

	s.clock.seconds.Add(301)
	snapshot := filepath.Join(t.TempDir(), snapshotsName, "20260102T030405Z-0011223344556677")
	write(t, filepath.Join(snapshot, "wal/watermark"), "")
	require.NoError(t, r.backend.Begin(ctx, "20260102T030405.000Z", snapshot))
	_, unfinished, err := r.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"20260102T030405.000Z.partial"}, unfinished)
	create(t, second, dir)
	require.NoDirExists(t, snapshot)
	require.ErrorIs(t, r.backend.Publish(ctx, "20260102T030405.000Z", nil), errLockLost)
	require.ErrorIs(t, release(), errLockLost)
	require.Len(t, names(t, r), 1)

	// A command that cannot renew its lock stops before the lock ends.
	s.opts.S3.LockTimeout = 200 * time.Millisecond
	r = openAt(t, location, s.opts)
	ctx, release, err = r.backend.Lock(t.Context())
	require.NoError(t, err)
	s.faults.mu.Lock()
	s.faults.fail = func(int, *http.Request) error { return errKilled }
	s.faults.mu.Unlock()
	<-ctx.Done()
	require.ErrorIs(t, r.backend.Publish(ctx, "20260102T030405.001Z", nil), errLockLost)
	require.ErrorIs(t, release(), errKilled)
}

// TestRequestsAreRepeated lets every first attempt of a request fail.
func TestRequestsAreRepeated(t *testing.T) {
	s, dir := newService(t), source(t)
	s.opts.S3.Attempts = 4
	tried := map[string]bool{}
	s.faults.fail = func(_ int, r *http.Request) error {
		key := r.Method + r.URL.Path + r.URL.RawQuery
		if tried[key] {
			return nil
		}
		tried[key] = true
		return &netError{}
	}
	r := openAt(t, location, s.opts)
	m := create(t, r, dir).Manifest
	require.Greater(t, len(tried), 10)
	requireWhole(t, r, m)
}

// netError is an error of a connection that breaks.
type netError struct{}

func (*netError) Error() string   { return "connection reset by peer" }
func (*netError) Timeout() bool   { return true }
func (*netError) Temporary() bool { return true }

// TestSecretsStayInside: no error and no line of progress holds the secret key, whatever fails.
func TestSecretsStayInside(t *testing.T) {
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Contains(t, r.Header.Get("Authorization"), "Credential=AKIDFILE/")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")
	}))
	t.Cleanup(refuse.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	file := filepath.Join(t.TempDir(), "credentials")
	write(t, file, "[default]\naws_access_key_id = AKIDFILE\naws_secret_access_key = "+secret+"\n")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	r, err := Open(location, Options{S3: S3Options{Endpoint: refuse.URL, Region: "eu-1", PathStyle: true, CredentialsFile: file,
		Attempts: 2, Transport: transport}})
	require.NoError(t, err)
	var said bytes.Buffer
	_, err = r.Create(t.Context(), Source{Dir: source(t)}, NewProgress(&said, time.Now))
	require.ErrorContains(t, err, "Access Denied")
	texts := []string{err.Error(), said.String()}

	bad := filepath.Join(t.TempDir(), "bad")
	write(t, bad, "[default\n"+secret)
	for want, open := range map[string]struct {
		location string
		opts     S3Options
	}{
		"no S3 credentials in the environment":     {location, S3Options{}},
		"no S3 credentials can be read from":       {location, S3Options{CredentialsFile: bad}},
		"no such file":                             {location, S3Options{CredentialsFile: bad + "none"}},
		"takes no user, password or port":          {"s3://AKID:" + secret + "@backups/a", S3Options{}},
		"--s3.endpoint: write a URL without user":  {location, S3Options{Endpoint: "https://AKID:" + secret + "@host"}},
		`"" is not the name of a bucket`:           {"s3://", S3Options{}},
		"is a path without ?":                      {"s3://backups/a/../b", S3Options{}},
		"cannot be negative":                       {location, S3Options{Attempts: -1}},
		"parts of 10 bytes are smaller than S3":    {location, S3Options{PartBytes: 10}},
		`"Backups" is not the name of a bucket`:    {"s3://Backups", S3Options{}},
		"--s3.endpoint: write a URL without user ": {location, S3Options{Endpoint: "localhost:9000"}},
	} {
		_, err := Open(open.location, Options{S3: open.opts})
		require.ErrorContains(t, err, want)
		texts = append(texts, err.Error())
	}
	require.NotContains(t, strings.Join(texts, "\n"), secret)
}

// FuzzLocation parses locations of buckets. One that parses has one form.
func FuzzLocation(f *testing.F) {
	for _, text := range []string{"s3://b", "s3://b/", "s3://b/p/q/", "s3://u:p@b/p", "s3://b/../x", "s3:///x", "/dir"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLocation(text)
		if err != nil {
			return
		}
		again, err := parseLocation(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
		require.False(t, strings.HasPrefix(l.prefix, "/") || strings.Contains(l.prefix, "//"), l.prefix)
	})
}
