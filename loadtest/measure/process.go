package measure

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Process holds the CPU time and memory that a process has used.
type Process struct {
	CPUSeconds   float64
	RSSBytes     int64
	PeakRSSBytes int64 // since the process started
}

// clockTicks is USER_HZ, the unit of CPU time in /proc. It is 100 on all of Go's Linux ports.
const clockTicks = 100

// ReadProcess reads a process's entry in the Linux /proc file system. It fails on other systems and if the process has
// ended.
func ReadProcess(pid int) (Process, error) {
	var p Process
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return p, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	p.CPUSeconds, err = parseStat(string(stat))
	if seconds, ok := processCPU(pid); ok {
		p.CPUSeconds = seconds
	}
	p.RSSBytes, p.PeakRSSBytes = statusBytes(string(status), "VmRSS:"), statusBytes(string(status), "VmHWM:")
	return p, err
}

var errStat = errors.New("/proc stat has an unexpected form")

// parseStat returns user plus system time in seconds: fields 14 and 15. It counts fields from the closing parenthesis of
// the process name, because the name may hold spaces and parentheses.
func parseStat(stat string) (float64, error) {
	at := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[at+1:])
	if at < 0 || len(fields) < 13 {
		return 0, errStat
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("%w: %w", errStat, err)
	}
	return float64(user+system) / clockTicks, nil
}

// statusBytes returns the value, in bytes, of a /proc status field in KiB. It returns 0 if the field is missing.
func statusBytes(status, field string) int64 {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
