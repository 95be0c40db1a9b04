package shortcut

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds what a test waits for; it is no measure of speed.
const patience = 20 * time.Second

// start serves h on a free port until the test ends. Paths below /take are taken.
func start(tb testing.TB, h http.Handler, set func(*Options)) (*Server, string) {
	tb.Helper()
	opts := Options{
		HTTP:  &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: patience},
		Paths: []string{"/take"}, WatchEvery: 5 * time.Millisecond,
	}
	if set != nil {
		set(&opts)
	}
	s, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tb.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			tb.Errorf("Serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

func dial(tb testing.TB, addr string) *net.TCPConn {
	tb.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	tb.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// behave answers with what it sees, or in the way that the query asks for.
func behave(w http.ResponseWriter, r *http.Request) {
	err := r.ParseForm()
	switch r.Form.Get("do") {
	case "large", "sized":
		body := strings.Repeat("0123456789abcdef", 5000)
		if r.Form.Get("do") == "sized" {
			w.Header().Set("Content-Length", fmt.Sprint(2*len(body)))
		}
		io.WriteString(w, body)
		w.Header().Set("Too-Late", "yes")
		io.WriteString(w, body)
	case "flush":
		w.Header().Set("Content-Type", "text/x-parts")
		io.WriteString(w, "one")
		http.NewResponseController(w).Flush()
		io.WriteString(w, "two")
	case "none":
		w.WriteHeader(http.StatusNoContent)
		_, err := io.WriteString(w, "never seen")
		w.Header().Set("Too-Late", fmt.Sprint(err))
	case "code":
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
	case "strange":
		w.WriteHeader(599)
	case "empty", "broken\nheader":
		w.Header().Set("X-Lines", "a\nb")
	case "short":
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "123")
	case "long":
		w.Header().Set("Content-Length", "3")
		io.WriteString(w, "123")
		_, err := io.WriteString(w, "456")
		if !errors.Is(err, http.ErrContentLength) {
			panic(err)
		}
	case "close":
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	case "html":
		io.WriteString(w, "<html><body>")
	case "encoded":
		w.Header().Set("Content-Encoding", "gzip")
		w.Write([]byte{0x1f, 0x8b})
	case "panic":
		panic("on purpose")
	case "abort":
		io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	default:
		_, local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		_, server := r.Context().Value(http.ServerContextKey).(*http.Server)
		fmt.Fprintln(w, r.Method, r.URL, r.RequestURI, r.Proto, r.Host, r.ContentLength, r.Form, r.PostForm, err, local, server,
			r.RemoteAddr != "", r.Close, r.TransferEncoding)
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range r.Header {
				if !yield(name) {
					return
				}
			}
		}) {
			fmt.Fprintln(w, name, r.Header[name])
		}
	}
}

// exchange sends b and returns the answers, as far as they can be compared: a line for each.
func exchange(tb testing.TB, addr string, b []byte) string {
	tb.Helper()
	c := dial(tb, addr)
	defer c.Close()
	if _, err := c.Write(b); err != nil {
		tb.Fatal(err)
	}
	c.CloseWrite()
	raw, _ := io.ReadAll(c) // a reset after the answer is none of the answer's
	from := bufio.NewReader(bytes.NewReader(raw))
	var out strings.Builder
	for {
		if _, err := from.Peek(1); err != nil {
			return out.String()
		}
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			return fmt.Sprintf("%sno answer: %q", out.String(), raw)
		}
		body, err := io.ReadAll(resp.Body)
		if date := resp.Header.Get("Date"); date != "" {
			if _, err := http.ParseTime(date); err != nil {
				tb.Errorf("Date %q: %v", date, err)
			}
			resp.Header.Set("Date", "given")
		}
		fmt.Fprintf(&out, "%s %q length %d coding %q close %v body %q %v\n",
			resp.Status, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Close, body, err)
	}
}

// requests are what both servers are sent; taken says whether the shortcut answers.
var requests = []struct {
	text  string
	taken bool
}{
	{"GET /take?a=b%20c&a=d HTTP/1.1\r\nHost: x:9\r\nAccept: */*\r\nx-lower: 1\r\nX-Lower: 2\r\n\r\n", true},
	{"POST /take HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\n" +
		"a=b&query=1", true},
	{"POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", true},
	{"POST /take HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take HTTP/1.1\r\nhOsT:x\r\ncOnnection: Keep-Alive\r\n\r\n", true},
	{"GET /take?do=large HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=sized HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=flush HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=none HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=code HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=strange HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=empty HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=short HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=long HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=close HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=html HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=encoded HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=panic HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take?do=abort HTTP/1.1\r\nHost: x\r\n\r\n", true},
	{"GET /take%zz HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"GET http://x/take HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"HEAD /take HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"get /take HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"GET /take HTTP/1.0\r\nHost: x\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x/y\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nBad\x01: 1\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nBad@: 1\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nValue: \xff\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nFolded: a\r\n b\r\n\r\n", false},
	{"GET /take HTTP/1.1\nHost: x\n\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\n\r\nGET /take?second HTTP/1.1\r\nHost: x\r\n\r\n", false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", false},
	{"POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", false},
	{"POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc", false},
	{"POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabc", false},
	{"POST /take HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n", false},
	{"POST /take HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\na=b", false},
	{"POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat("x", 9000), false},
	{"GET /take HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", false},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
	{"", false},
	{"GET /ta", false},
}

// pair starts a server of net/http alone and one with the shortcut; taken counts what the latter took.
func pair(tb testing.TB) (alone, with string, taken *atomic.Int64) {
	tb.Helper()
	taken = new(atomic.Int64)
	_, with = start(tb, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(*response); ok {
			taken.Add(1)
		}
		behave(w, r)
	}), nil)
	_, alone = start(tb, http.HandlerFunc(behave), func(o *Options) { o.Paths = nil })
	return alone, with, taken
}

// TestSameAnswers: whatever is sent is answered as net/http does.
func TestSameAnswers(t *testing.T) {
	alone, with, taken := pair(t)
	for _, r := range requests {
		taken.Store(0)
		want := exchange(t, alone, []byte(r.text))
		got := exchange(t, with, []byte(r.text))
		if got != want {
			t.Errorf("%.200q\n is answered %s\nby net/http %s", r.text, got, want)
		}
		if n := taken.Load(); (n > 0) != r.taken {
			t.Errorf("%.200q: taken %d times, want %v", r.text, n, r.taken)
		}
	}
}

// FuzzSameAnswers: the same with whatever comes to mind.
func FuzzSameAnswers(f *testing.F) {
	for _, r := range requests {
		f.Add([]byte(r.text))
	}
	alone, with, _ := pair(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 16<<10 {
			return
		}
		if got, want := exchange(t, with, b), exchange(t, alone, b); got != want {
			t.Errorf("%q\n is answered %s\nby net/http %s", b, got, want)
		}
	})
}

// TestConnectionIsKept: requests follow each other on one connection, taken or not.
func TestConnectionIsKept(t *testing.T) {
	seen := make(chan bool, 10)
	_, addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, ok := w.(*response)
		seen <- ok
		behave(w, r)
	}), nil)
	c := dial(t, addr)
	from := bufio.NewReader(c)
	for i, path := range []string{"/take", "/take?do=large", "/take?do=none", "/take", "/other", "/take"} {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got, want := <-seen, i < 4; got != want { // a connection that was handed over stays there
			t.Errorf("%s: taken %v, want %v", path, got, want)
		}
	}
}

// TestClientGoesAway: the context of a request ends when its client goes, and not before.
func TestClientGoesAway(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error)
	_, addr := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-r.Context().Done():
			ended <- r.Context().Err()
		case <-time.After(patience):
			ended <- nil
		}
	}), nil)
	for _, leave := range []func(*net.TCPConn){
		func(c *net.TCPConn) { c.Close() },
		func(c *net.TCPConn) { c.CloseWrite() },
		func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		c := dial(t, addr)
		io.WriteString(c, "GET /take HTTP/1.1\r\nHost: x\r\n\r\n")
		<-began
		select {
		case err := <-ended:
			t.Fatalf("the request ended with its client there: %v", err)
		case <-time.After(50 * time.Millisecond): // ten looks of the watch
		}
		leave(c)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the context ended with %v", err)
		}
	}
}

// TestShutdown: requests under way finish, their connections are closed then, unused ones at once.
func TestShutdown(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	s, addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "wait" {
			close(began)
			<-release
		}
		io.WriteString(w, "done")
	}), nil)
	idle, working := dial(t, addr), dial(t, addr)
	io.WriteString(idle, "GET /take HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil {
		t.Fatal(err)
	}
	io.WriteString(working, "GET /take?wait HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown with a request under way: %v", err)
	}
	if n, err := io.Copy(io.Discard, idle); err != nil {
		t.Errorf("an unused connection: %d bytes, %v", n, err)
	}
	close(release)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(working), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "done" || err != nil {
		t.Errorf("the request under way got %q, %v", body, err)
	}
	if _, err := working.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its connection: %v", err)
	}
}

// TestTimeouts: connections end that bring nothing, at first and after a request.
func TestTimeouts(t *testing.T) {
	_, addr := start(t, http.HandlerFunc(behave), func(o *Options) {
		o.HTTP.ReadHeaderTimeout, o.HTTP.IdleTimeout = 30*time.Millisecond, 40*time.Millisecond
	})
	for _, text := range []string{"", "GET /take", "GET /take HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c := dial(t, addr)
		io.WriteString(c, text)
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("after %q: %v", text, err)
		}
	}
}

// TestOptions: what cannot be honoured is refused.
func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{}, {HTTP: &http.Server{WriteTimeout: 1}}, {HTTP: &http.Server{}, RequestBytesMax: -1}, {HTTP: &http.Server{}, WatchEvery: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
