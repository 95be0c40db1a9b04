package main_test

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// documents returns the texts of README.md, docs and grafana by their paths below the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	paths, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	reference, err := filepath.Glob("../../docs/reference/*.md")
	require.NoError(t, err)
	for _, path := range slices.Concat(paths, reference, []string{"../../README.md", "../../grafana/README.md"}) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel("../..", path)
		require.NoError(t, err)
		texts[name] = string(text)
	}
	require.Greater(t, len(texts), 20)
	return texts
}

// notRun lists the blocks of commands that TestDocsCommands cannot run, by file and beginning, with the reason.
var notRun = []struct{ file, begins, reason string }{
	{"README.md", "go run ./cmd/tsdb demo", "builds, and serves without end; TestDemo"},
	{"README.md", "go run ./cmd/tsdb graph", "builds; docs/first-steps.md has the command"},
	{"README.md", "go run ./cmd/tsdb serve", "builds, and serves without end"},
	{"README.md", "go test -timeout", "is all tests"},
	{"docs/first-steps.md", "tsdb demo", "serves without end; this test runs it during the others"},
	{"docs/first-steps.md", "tsdb serve", "serves without end; this test runs it first"},
	{"docs/benchmarks.md", "", "takes minutes, and needs other databases"},
	{"docs/loadtest.md", "", "takes minutes, or needs other databases; TestLoadtestCompare"},
	{"docs/bigtable.md", "", "needs Bigtable, or serves without end; TestBigtableStatus"},
	{"docs/ingest.md", "", "TestIngestDocs runs them and checks the responses"},
	{"docs/reference/api.md", "", "TestAPIReference runs them and checks the responses"},
	{"docs/operations.md", "go test", "is a test itself"},
	{"docs/operations.md", "$ tsdb verify", "shows a damaged store; TestDamagedDay"},
	{"docs/opentsdb.md", "tsdb serve", "serves without end; TestOpenTSDBProtocols"},
	{"docs/migrating.md", "curl -X POST http://127.0.0.1:9090", "needs Prometheus; TestImportBlocks"},
	{"docs/keyviz.md", "$ tsdb keyviz", "shows the result too; TestKeyvizCompare"},
	{"docs/install.md", "", "installs packages; .ci/release tries them"},
	{"grafana/README.md", "", "needs Docker and Grafana"},
}

var (
	// asksServer matches commands that need --url.
	asksServer  = regexp.MustCompile(`(?m)^tsdb (graph|delete|keys audit|rules backfill|export parquet|opentsdb [qs]\w+) `)
	fencedBlock = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```")
	commandLine = regexp.MustCompile(`(?m)^\s*(\$ )?([A-Z_]+=\S+ )*(tsdb|halite|curl|go|docker|gcloud|kubectl|docs/\S+\.sh) `)
)

// TestDocsCommands runs each command of the documents as a user does, or says in notRun why not.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stopped := startServer(t, filepath.Join(dir, "data"))
	response, err := http.Post(stopped.url+"/api/v1/import/prometheus", "text/plain", strings.NewReader("up{job=\"docs\"} 1\n"))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNoContent, response.StatusCode)
	require.NoError(t, stopped.end(syscall.SIGTERM))
	url := demoServer(t)
	shim := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(shim, 0o755))
	for _, name := range []string{"tsdb", "halite"} {
		require.NoError(t, os.Symlink(binary, filepath.Join(shim, name)))
	}
	bucket, _ := startS3(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "queries.txt"), []byte("sum(demo_requests_total)\n"), 0o644))
	tenants := docsTenants(t, dir)
	writeRuleFiles(t, dir)
	// The demo stands in for Prometheus and VictoriaMetrics where Halite has the same endpoints.
	replace := strings.NewReplacer("http://127.0.0.1:9480", url, "http://127.0.0.1:9090", url, "http://127.0.0.1:8428", url,
		"tsdb tenant ", tenants, "/mnt/backups", filepath.Join(dir, "backups"), "https://s3.example.com", bucket,
		"curl ", "curl --silent --show-error --fail-with-body ")
	ran := 0
	for file, text := range documents(t) {
		for _, block := range fencedBlock.FindAllStringSubmatch(text, -1) {
			if block[1] != "sh" && (block[1] != "" || !commandLine.MatchString(block[2])) || excused(file, block[2]) {
				continue
			}
			require.Equal(t, "sh", block[1], "%s: mark this block as sh, so that this test runs it:\n%s", file, block[2])
			ran++
			script := replace.Replace(block[2])
			if !strings.Contains(script, url) { // these commands have the server's URL as default
				script = asksServer.ReplaceAllString(script, "tsdb $1 --url "+url+" ")
			}
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+shim+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s:\n%s\n%s", file, block[2], out)
		}
	}
	require.Greater(t, ran, 10)
}

// docsTenants starts a server with the tenant of docs/tenants.md, and returns the beginning of commands that administer it.
func docsTenants(t *testing.T, dir string) (command string) {
	t.Helper()
	s := startTenants(t, filepath.Join(dir, "tenants"))
	s.writeThree("acme", 1, time.Now())
	token := filepath.Join(dir, "operator")
	require.NoError(t, os.WriteFile(token, []byte("operator"), 0o600))
	return "tsdb tenant --url " + s.url + " --bearer-token-file " + token + " "
}

// writeRuleFiles writes the files that docs/rules.md shows, for its commands.
func writeRuleFiles(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "rules"), 0o755))
	shown := fencedBlock.FindAllStringSubmatch(documents(t)["docs/rules.md"], -1)
	for beginning, path := range map[string]string{"global:": "halite.yml", "groups:": "rules/http.yml"} {
		i := slices.IndexFunc(shown, func(b []string) bool { return b[1] == "yaml" && strings.HasPrefix(b[2], beginning) })
		require.GreaterOrEqual(t, i, 0, "docs/rules.md shows no %s", path)
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(shown[i][2]), 0o600))
	}
}

func excused(file, block string) bool {
	for _, n := range notRun {
		if n.file == file && strings.HasPrefix(strings.TrimSpace(block), n.begins) {
			return true
		}
	}
	return false
}

// demoServer runs `tsdb demo` until the end of the test and returns its URL once it is filled.
func demoServer(t *testing.T) (url string) {
	t.Helper()
	addr := freeAddress(t)
	log := &logBuffer{}
	cmd := command(t, "demo", "--demo.span=10m", "--demo.hosts=2", "--web.listen-address", addr, "--web.enable-admin-api",
		"--web.enable-lifecycle", "--web.self-scrape-interval=250ms", "--storage.path", t.TempDir())
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-done
	})
	url = "http://" + addr
	// The examples draw rates of the server's own metrics too. A graph ends up to one step before now.
	for deadline := time.Now().Add(time.Minute); !filled(url, log); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the demo is not ready within a minute\n%s", log)
	}
	return url
}

// filled reports whether a demo has its samples, and enough of its own metrics for a rate.
func filled(url string, log *logBuffer) bool {
	if !strings.Contains(log.String(), "demo filled") {
		return false
	}
	response, err := http.Get(url + "/api/v1/query?query=count_over_time(tsdb_ingest_samples_total%5B1m%5D+offset+5s)+%3E+2")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err == nil && strings.Contains(string(body), `"value":[`)
}

// TestDocsNames: documents name only flags and metrics that exist.
func TestDocsNames(t *testing.T) {
	texts := documents(t)
	flags, metrics := texts["docs/reference/flags.md"], texts["docs/reference/metrics.md"]
	const groups = `storage|query|web|ingest|bigtable|tenants|opentsdb|config|log|demo`
	flag := regexp.MustCompile(`--(?:no-)?((?:` + groups + `)\.[a-z0-9.-]*[a-z0-9])(…?)`)
	metric := regexp.MustCompile("`(tsdb_[a-z0-9_]*[a-z0-9])[`{]")
	checked := 0
	for file, text := range texts {
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			if m[2] == "" {
				checked++
				require.Regexp(t, "--(\\[no-\\])?"+regexp.QuoteMeta(m[1])+"[`.]", flags, "%s names the flag --%s", file, m[1])
			}
		}
		for _, m := range metric.FindAllStringSubmatch(text, -1) {
			checked++
			name := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")
			require.True(t, strings.Contains(metrics, "`"+name+"`") || strings.Contains(metrics, "`"+m[1]+"`"),
				"%s names the metric %s, which is not in docs/reference/metrics.md", file, m[1])
		}
	}
	require.Greater(t, checked, 200)
}

var documentLink = regexp.MustCompile(`\]\(([^)#:\s]*)(#[^)\s]*)?\)`)

// TestDocsLinks: links between documents lead to files and headings that exist.
func TestDocsLinks(t *testing.T) {
	checked := 0
	for file, text := range documents(t) {
		for _, link := range documentLink.FindAllStringSubmatch(text, -1) {
			target := filepath.Join(filepath.Dir(file), link[1])
			if link[1] == "" {
				target = file
			}
			found, err := os.ReadFile(filepath.Join("../..", target))
			if info, statErr := os.Stat(filepath.Join("../..", target)); statErr == nil && info.IsDir() {
				err = nil
			}
			require.NoError(t, err, "%s links to %s", file, link[0])
			if link[2] != "" && strings.HasSuffix(target, ".md") {
				require.Contains(t, anchors(string(found)), link[2], "%s links to %s", file, link[0])
			}
			checked++
		}
	}
	require.Greater(t, checked, 100)
}

// anchors returns the anchors of the headings of a document.
func anchors(text string) (all []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, "#"+strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// TestTroubleshootingTexts: the errors of docs/troubleshooting.md are texts of the code, or of the libraries that it names here.
func TestTroubleshootingTexts(t *testing.T) {
	foreign := []string{"bind: address already in use", "permission denied", "unknown long flag", "MANIFEST", "request too large",
		"000012.sst", "crc32c checksum mismatch", "/-/reload"}
	var source strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		}
		return err
	}))
	// Long texts are written as "…" + "…" over several lines.
	code := regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(source.String(), "")
	checked := 0
	for row := range strings.Lines(documents(t)["docs/troubleshooting.md"]) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 || !strings.HasPrefix(row, "|") {
			continue
		}
		for _, text := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			if !slices.Contains(foreign, text[1]) {
				checked++
				require.True(t, strings.Contains(code, text[1]), "no error of the code has the text %q: %s", text[1], row)
			}
		}
	}
	require.Greater(t, checked, 30)
}
