package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent replaces Go's 100. Nearly all of the heap is slabs without pointers, which cost nothing to mark, so that
// collecting more often costs little and keeps the garbage of a flush small. GOGC overrules it.
const gcPercent = 50

// memoryShare is the part of the container's memory that the heap may use; the rest is for the kernel's page cache and
// for what the runtime does not count. GOMEMLIMIT overrules it.
const memoryShare = 0.9

// limitMemory fits the garbage collector to the container, if there is one.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	_, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	if err != nil {
		log.Debug("no memory limit of a container found", "err", err)
	}
}
