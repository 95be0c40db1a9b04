package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"halite/ingest/head"
	"halite/ingest/ratelimit"
	"halite/ingest/relabel"
	"halite/ingest/remotewrite"
	"halite/ingest/tenantlimits"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/principal"
)

// refusedLogInterval is the minimum time between two log lines that count the writes refused after the log failed.
const refusedLogInterval = time.Minute

// admission decides whether to accept a write request. Its errors are:
//   - *BadRequestError: the request is malformed. The sender must not repeat it (400).
//   - ErrTooLarge: the request is over a limit. The sender must split it (413).
//   - *OverloadError: a resource is short. The sender repeats the request later (503).
//
// seriesLimits decides which new series of a request are accepted.
type admission struct {
	limits  Limits
	memory  memoryBudget
	logger  *slog.Logger
	metrics *metrics

	rate     ratelimit.Limiter
	slots    chan struct{}
	inFlight atomic.Int64 // decoded bytes of the requests in progress, and of their decoded histograms

	// space is why the disk makes the server refuse writes; see setSpace. It is nil if the disk has space.
	space   atomic.Pointer[string]
	logFull atomic.Bool
	// blocked is the owner's reason to refuse all writes. It is nil if the owner accepts writes.
	blocked atomic.Pointer[string]

	refused       atomic.Int64 // writes that the failed log refused since refusedLogged
	refusedLogged time.Time    // only the caller of reportRefused uses it
}

func (a *admission) init(limits Limits, memory memoryBudget, logger *slog.Logger, m *metrics) {
	a.limits, a.memory, a.logger, a.metrics = limits, memory, logger, m
	a.slots = make(chan struct{}, limits.ConcurrencyMax)
}

// admit reserves memory and a slot for a request of a decoded size, or refuses the request. A tenant's request first waits
// for a slot of the tenant. The caller must call leave, and Leave of the tenant's slot.
func (a *admission) admit(
	ctx context.Context, tenant *tenantlimits.Tenant, sizeBytes int,
) (slot tenantlimits.Slot, err error) {
	if resource, reason := a.lacks(); resource != "" {
		return slot, a.overload(resource, reason)
	}
	if slot, err = a.enterTenant(ctx, tenant, sizeBytes); err != nil {
		return slot, err
	}
	defer func() {
		if err != nil {
			slot.Leave()
			slot.Done()
		}
	}()
	if err := a.grow(sizeBytes); err != nil {
		return slot, err
	}
	select {
	case a.slots <- struct{}{}:
		return slot, nil
	default:
	}
	err = a.awaitSlot(ctx)
	if err != nil {
		a.inFlight.Add(int64(-sizeBytes))
	}
	return slot, err
}

// enterTenant reserves a slot and memory in the share of a tenant.
func (a *admission) enterTenant(
	ctx context.Context, tenant *tenantlimits.Tenant, sizeBytes int,
) (slot tenantlimits.Slot, err error) {
	if tenant == nil {
		return slot, nil
	}
	slot, ok := tenant.Enter(ctx, sizeBytes, a.limits.QueueWaitMax, principal.From(ctx).Shares())
	if ok {
		return slot, nil
	}
	if err := ctx.Err(); err != nil {
		return slot, err
	}
	return slot, a.overload(resourceTenant, "the tenant has too many requests at once")
}

// checkRate refuses a request while the samples per second exceed their limit. If that limit is a dry run, it accepts the
// request and sets over.
func (a *admission) checkRate(
	now time.Time, check func(time.Time) (wait time.Duration, over, dryRun bool),
) (over bool, err error) {
	wait, over, dryRun := check(now)
	if !over || dryRun {
		return over, nil
	}
	a.metrics.overloads.WithLabelValues(resourceRate).Inc()
	wait += time.Second + rand.N(time.Second)
	return false, &OverloadError{
		Reason: "the limit of samples per second is reached", RetryAfter: min(wait, rateWaitMax).Round(time.Second),
	}
}

// rateWaitMax is the longest Retry-After that a sender gets at the limit of samples per second.
const rateWaitMax = time.Minute

// grow reserves memory for a request, or refuses the request. leave frees the memory.
func (a *admission) grow(sizeBytes int) error {
	if a.inFlight.Add(int64(sizeBytes)) > a.limits.InFlightBytesMax {
		a.inFlight.Add(int64(-sizeBytes))
		return a.overload(resourceBytes, "too many bytes of requests in flight")
	}
	return nil
}

// leave frees what admit and grow reserved.
func (a *admission) leave(sizeBytes int) {
	<-a.slots
	a.inFlight.Add(int64(-sizeBytes))
}

func (a *admission) awaitSlot(ctx context.Context) error {
	timer := time.NewTimer(a.limits.QueueWaitMax)
	defer timer.Stop()
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return a.overload(resourceConcurrency, "too many requests at once")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lacks returns the resource that is short, and the reason as text. While a resource is short, the server refuses all writes.
// Both are "" if nothing is short.
func (a *admission) lacks() (resource, reason string) {
	if why := a.blocked.Load(); why != nil {
		return ResourceTables, *why
	}
	if why := a.space.Load(); why != nil {
		return resourceSpace, *why
	}
	if a.logFull.Load() {
		return resourceSize, "the write-ahead log is too large and cannot be truncated"
	}
	return a.memory.lacks()
}

// decodedBytes returns the decoded size of a compressed body. It refuses a body that is too large.
func (a *admission) decodedBytes(body []byte) (sizeBytes int, err error) {
	if len(body) > a.limits.BodyBytesMax {
		return 0, fmt.Errorf("%w: %d bytes compressed, %d allowed", ErrTooLarge, len(body), a.limits.BodyBytesMax)
	}
	size, err := remotewrite.DecodedLen(body)
	if err != nil {
		return 0, &BadRequestError{err}
	}
	if size > a.limits.DecodedBytesMax {
		return 0, fmt.Errorf("%w: %d bytes decompressed, %d allowed", ErrTooLarge, size, a.limits.DecodedBytesMax)
	}
	return size, nil
}

// checkSamples refuses a request with too many series or samples.
func (a *admission) checkSamples(n int) error {
	if n > a.limits.RequestSamplesMax {
		return fmt.Errorf("%w: more than %d series or samples", ErrTooLarge, a.limits.RequestSamplesMax)
	}
	return nil
}

// overload refuses a write. The delay is random between 1 s and 10 s, so that senders do not retry all at once.
func (a *admission) overload(resource, reason string) error {
	a.metrics.overloads.WithLabelValues(resource).Inc()
	delay := time.Second + rand.N(9*time.Second)
	return &OverloadError{Reason: reason, RetryAfter: delay.Round(time.Second)}
}

// classify turns an error of the log into one of admission's errors. It also counts bad requests.
func (a *admission) classify(err error) error {
	var bad *BadRequestError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad), errors.Is(err, ErrTooLarge):
		a.metrics.badRequests.Inc()
	case errors.Is(err, wal.ErrClosed):
		return ErrClosed
	case errors.Is(err, wal.ErrFailed):
		a.refused.Add(1)
		return a.overload(resourceFailed, "the write-ahead log failed; the server must be restarted")
	case storage.Exhausted(err):
		return a.overload(resourceSpace, "the write-ahead log lacks disk space or descriptors")
	case errors.Is(err, wal.ErrOverload):
		return a.overload(resourceLog, "the disk of the log does not keep up")
	}
	return err
}

// lowSpace is the reason for refusing writes if the disk has too little free space.
const lowSpace = "too little disk space left"

// lacksSpace reports whether the server refuses writes for lack of disk space.
func (a *admission) lacksSpace() bool { return a.space.Load() != nil }

// setSpace sets why the disk makes the server refuse writes, "" if it does not. It logs when that begins and ends.
func (a *admission) setSpace(reason string, details ...any) {
	var next *string
	if reason != "" {
		next = &reason
	}
	switch before := a.space.Swap(next); {
	case before == nil && next != nil:
		a.logger.Error("refusing writes: "+reason+"; reads continue", details...)
	case before != nil && next == nil:
		a.logger.Info("accepting writes again: disk space is back", details...)
	}
}

// setLogFull sets whether a full log makes the server refuse writes. It logs when that begins.
func (a *admission) setLogFull(full bool, sizeBytes, limitBytes int64) {
	if a.logFull.Swap(full) != full && full {
		a.logger.Error("refusing writes: the write-ahead log is too large and cannot be truncated", "bytes", sizeBytes,
			"limit_bytes", limitBytes)
	}
}

// reportRefused logs how many writes the failed log has refused since the last line.
func (a *admission) reportRefused(now time.Time, logErr error) {
	if now.Sub(a.refusedLogged) < refusedLogInterval {
		return
	}
	if n := a.refused.Swap(0); n > 0 {
		a.refusedLogged = now
		a.logger.Error("writes are refused because the write-ahead log failed; restart the server", "refused_writes", n,
			"err", logErr)
	}
}

// retryable marks an error of the log with storage.ErrUnavailable if the same request can succeed later. If the log has
// failed, it also marks the error with storage.ErrFailed.
func retryable(err error) error {
	switch {
	case err == nil || errors.Is(err, storage.ErrUnavailable):
		return err
	case errors.Is(err, wal.ErrFailed):
		return fmt.Errorf("%w: %w: %w", storage.ErrUnavailable, storage.ErrFailed, err)
	case errors.Is(err, wal.ErrOverload), storage.Exhausted(err):
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	return err
}

// Active series may take three quarters of HeadOptions.TotalBytesMax. A quarter always remains for their samples.
const (
	seriesShare = 3
	totalShares = 4
)

// memoryBudget divides memory between active series and their unflushed samples.
type memoryBudget struct {
	index    *index.Index
	registry *head.Registry
	rules    *atomic.Pointer[relabel.Rules]
	head     *head.Head
	// headBytesMax and totalBytesMax are HeadOptions.BytesMax and TotalBytesMax. If headBytesMax is 0, there is no limit.
	headBytesMax, totalBytesMax int64
	seriesWarn                  float64 // of Limits.SeriesWarn
}

// lacks returns the kind of memory that is short, and the reason as text. Both are "" if nothing is short.
func (m *memoryBudget) lacks() (resource, reason string) {
	switch {
	case m.headBytesMax == 0:
	case m.head.Bytes() > m.rowBytesMax()/4*5:
		return resourceHead, "the memory for unflushed samples is used up"
	case m.totalBytesMax > 0 && m.seriesBytes() > m.totalBytesMax:
		return resourceSeries, "the memory for active series is used up"
	}
	return "", ""
}

// seriesBytes is the memory of active series without their rows. A flush does not free it.
func (m *memoryBudget) seriesBytes() int64 {
	return m.index.SizeBytes() + m.registry.SizeBytes() + m.rules.Load().SizeBytes() + m.head.SeriesBytes()
}

// seriesUse returns the limit of seriesBytes and its usage.
func (m *memoryBudget) seriesUse() LimitUse {
	if m.headBytesMax == 0 {
		return LimitUse{}
	}
	use := LimitUse{Used: m.seriesBytes(), Max: m.totalBytesMax / totalShares * seriesShare}
	share := m.seriesWarn
	if share > 1 { // share is a number of series
		share = 0
	}
	use.Warn = int64(keyschema.SeriesWarn(int(use.Max), share))
	return use
}

// rowBytesMax is the memory of rows above which the flusher writes rows early. It is the minimum of HeadOptions.BytesMax and
// the part of HeadOptions.TotalBytesMax that active series do not use.
func (m *memoryBudget) rowBytesMax() int64 {
	if m.totalBytesMax == 0 {
		return m.headBytesMax
	}
	return min(m.headBytesMax, max(m.totalBytesMax-m.seriesBytes(), m.totalBytesMax/totalShares))
}
