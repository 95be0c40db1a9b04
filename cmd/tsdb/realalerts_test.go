//go:build realinput

package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const realAlertConfig = `
route: {receiver: nobody, group_wait: 1s}
receivers: [{name: nobody}]
`

// activeAlerts returns the active alerts of a real Alertmanager by name.
func activeAlerts(t *testing.T, address string) map[string]sentAlert {
	out := make(map[string]sentAlert)
	resp, err := http.Get("http://" + address + "/api/v2/alerts?active=true")
	if err != nil {
		return out
	}
	defer resp.Body.Close()
	var list []sentAlert
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&list))
	for _, a := range list {
		out[a.Labels["alertname"]] = a
	}
	return out
}

// TestRealAlertmanager: an alert arrives at a real Alertmanager, is the same after kill -9, and resolves.
func TestRealAlertmanager(t *testing.T) {
	binary := findBinary(t, "ALERTMANAGER", "prometheus-alertmanager")
	folder, address := t.TempDir(), freeAddress(t)
	config := filepath.Join(folder, "alertmanager.yml")
	require.NoError(t, os.WriteFile(config, []byte(realAlertConfig), 0o600))
	startProcess(t, binary, "--config.file="+config, "--storage.path="+filepath.Join(folder, "data"),
		"--web.listen-address="+address, "--cluster.listen-address=")
	active := func(name string) func() bool {
		return func() bool { _, ok := activeAlerts(t, address)[name]; return ok }
	}
	dir := t.TempDir()
	s := startRules(t, dir, address, "--no-web.self-scrape")
	s.heat(40)
	require.Eventually(t, active("HotForSome"), time.Minute, 50*time.Millisecond)
	before := activeAlerts(t, address)["HotForSome"]
	require.Equal(t, map[string]string{"alertname": "HotForSome", "cluster": "eu-1"}, before.Labels)

	_ = s.end(syscall.SIGKILL)
	s.start(t, dir, "--no-web.self-scrape")
	s.heat(40)
	require.Eventually(t, func() bool { return activeAlerts(t, address)["HotForSome"].EndsAt.After(before.EndsAt) },
		time.Minute, 50*time.Millisecond, "the server sends it again")
	require.Equal(t, before.StartsAt, activeAlerts(t, address)["HotForSome"].StartsAt)

	s.heat(20)
	require.Eventually(t, func() bool { return len(activeAlerts(t, address)) == 0 }, time.Minute, 50*time.Millisecond)
}
