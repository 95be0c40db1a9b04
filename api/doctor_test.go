package api

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/api/doctor"
	"halite/api/tenancy"
	"halite/storage/storagetest"
	"halite/storage/tenants"
)

// TestDoctor: the response is the report. On a server with tenants, the scope read does not suffice.
func TestDoctor(t *testing.T) {
	const path = "/api/v1/status/doctor"
	var fail error
	judge := func(o *Options) {
		o.Doctor = func(context.Context) (doctor.Report, error) {
			return doctor.Report{Ready: true, CheckedMs: 5, Verdicts: []doctor.Verdict{{ID: "<disk>", Level: doctor.Warn}}}, fail
		}
	}
	f := newFixture(t, judge)
	require.JSONEq(t, `{"status":"success","data":{"ready":true,"checkedMs":5,"verdicts":[{"id":"<disk>","level":"warn","subject":"",
		"evidence":"","advice":"","command":"","docs":""}]}}`, body(t, f.get(path)))
	fail = errors.New("disk on fire")
	require.Equal(t, http.StatusInternalServerError, f.get(path).Code)
	require.Equal(t, http.StatusUnprocessableEntity, newFixture(t, func(*Options) {}).get(path).Code)

	list, err := tenants.Open(t.Context(), tenants.Options{Store: storagetest.NewModel(time.Now)})
	require.NoError(t, err)
	resolve, err := tenancy.New(tenancy.Options{List: list})
	require.NoError(t, err)
	for _, with := range []bool{false, true} {
		f := newFixture(t, func(o *Options) {
			judge(o)
			fail, o.Auth = nil, tenantHeader{}
			if with {
				o.Tenancy = resolve
			}
		})
		want := map[bool]int{false: http.StatusOK, true: http.StatusForbidden}[with]
		require.Equal(t, want, f.get(path).Code)
	}
}
