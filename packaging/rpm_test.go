package packaging

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
	"sigs.k8s.io/yaml"
)

// packaged is a file of nfpm.yaml.
type packaged struct {
	Src  string `json:"src"`
	Dst  string `json:"dst"`
	Type string `json:"type"`
	Info struct {
		Mode int `json:"mode"`
	} `json:"file_info"`
}

// packagedFiles returns the files of nfpm.yaml by their place.
func packagedFiles(t *testing.T) map[string]packaged {
	t.Helper()
	text, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Contents []packaged `json:"contents"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	files := map[string]packaged{}
	for _, f := range config.Contents {
		files[f.Dst] = f
	}
	if len(files) < 10 {
		t.Fatalf("nfpm.yaml has %d files", len(files))
	}
	return files
}

// openRPM opens the rpm of HALITE_RPM, which .ci/release builds.
func openRPM(t *testing.T) *os.File {
	t.Helper()
	path := os.Getenv("HALITE_RPM")
	if path == "" {
		t.Skip("HALITE_RPM names no rpm; .ci/release builds one")
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// TestRPMHeader: the rpm has its name and the scripts of this folder, and depends on a shell only.
func TestRPMHeader(t *testing.T) {
	h, _, err := rpmutils.Verify(openRPM(t), nil) // compares the digests of header and payload
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[int]string{rpmutils.NAME: "halite", rpmutils.LICENSE: "Apache-2.0", rpmutils.OS: "linux"} {
		if got, err := h.GetString(tag); err != nil || got != want {
			t.Errorf("tag %d: %q, %v; want %q", tag, got, err, want)
		}
	}
	if h.HasTag(rpmutils.REQUIRENAME) {
		needs, err := h.GetStrings(rpmutils.REQUIRENAME)
		if err != nil {
			t.Fatal(err)
		}
		for _, need := range needs {
			if need != "/bin/sh" && !strings.HasPrefix(need, "rpmlib(") {
				t.Errorf("the rpm needs %s", need)
			}
		}
	}
	for tag, path := range map[int]string{rpmutils.POSTIN: "postinstall.sh", rpmutils.PREUN: "preremove.sh"} {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.GetString(tag); err != nil || strings.TrimSpace(got) != strings.TrimSpace(string(want)) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

// TestRPMFiles: the rpm holds exactly the files of nfpm.yaml, with their modes, and its program runs.
func TestRPMFiles(t *testing.T) {
	r, err := rpmutils.ReadRpm(openRPM(t))
	if err != nil {
		t.Fatal(err)
	}
	nevra, err := r.Header.GetNEVRA()
	if err != nil {
		t.Fatal(err)
	}
	payload, err := r.PayloadReaderExtended()
	if err != nil {
		t.Fatal(err)
	}
	missing := packagedFiles(t)
	for {
		f, err := payload.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		want, found := missing[f.Name()]
		if !found {
			t.Errorf("nfpm.yaml does not name %s", f.Name())
			continue
		}
		delete(missing, f.Name())
		content, err := io.ReadAll(payload)
		if err != nil {
			t.Fatal(err)
		}
		requireFile(t, f, want, content)
		if want.Dst == "/usr/bin/halite" {
			requireProgram(t, content, nevra.Version)
		}
	}
	if len(missing) > 0 {
		t.Errorf("the rpm lacks %v", missing)
	}
}

// requireFile demands that a file of an rpm is as nfpm.yaml says.
func requireFile(t *testing.T, f rpmutils.FileInfo, want packaged, content []byte) {
	t.Helper()
	const config, noReplace = 1 << 0, 1 << 4 // flags of rpm: an upgrade keeps a changed file
	if got := f.Mode() & 0o7777; got != want.Info.Mode {
		t.Errorf("%s has mode %o, not %o", f.Name(), got, want.Info.Mode)
	}
	if f.UserName() != "root" || f.GroupName() != "root" {
		t.Errorf("%s belongs to %s:%s", f.Name(), f.UserName(), f.GroupName())
	}
	if kept := f.Flags()&(config|noReplace) == config|noReplace; kept != (want.Type == "config|noreplace") {
		t.Errorf("%s has flags %b", f.Name(), f.Flags())
	}
	if len(content) == 0 {
		t.Errorf("%s is empty", f.Name())
	}
	if strings.Contains(want.Src, "$") {
		return // a file that .ci/release makes
	}
	if source, err := os.ReadFile(filepath.Join("..", want.Src)); err != nil || !bytes.Equal(source, content) {
		t.Errorf("%s differs from %s, %v", f.Name(), want.Src, err)
	}
}

// requireProgram runs the program of a package, which must know its version.
func requireProgram(t *testing.T, program []byte, version string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "halite")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "version").CombinedOutput()
	// An rpm writes the suffix of a version as 0.1.0~dev.
	if number, _, _ := strings.Cut(version, "~"); err != nil || !strings.Contains(string(out), number) {
		t.Errorf("halite version of package %s: %v: %s", version, err, out)
	}
}
