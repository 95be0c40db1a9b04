package opentsdb

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/api/opentsdb/querystats"
	"halite/api/opentsdb/stats"
	"halite/api/receiver/opentsdb"
	"halite/query/opentsdb/request"
	"halite/storage/aliases"
	"halite/storage/index"
	"halite/storage/notes"
	"halite/storage/principal"
)

// Index answers look-ups of names and series; the caller's principal is in the context.
type Index interface {
	Select(ctx context.Context, budget index.Budget, mintMs, maxtMs int64, matchers ...*labels.Matcher) ([]index.Series, error)
	LabelNames(ctx context.Context, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher) ([]string, error)
	LabelValues(
		ctx context.Context, name string, mintMs, maxtMs int64, limit int, matchers ...*labels.Matcher,
	) ([]string, error)
}

// Lookup is a request with a slot of the look-ups.
type Lookup struct {
	// Ctx ends at the time limit of a look-up.
	Ctx context.Context
	// Budget counts the memory of found series.
	Budget index.Budget
	// End frees the slot and the memory.
	End func()
}

// Options configure Handlers. All fields except Stats, Queries and Notes are required.
type Options struct {
	Index Index
	// Begin waits for a slot of the look-ups.
	Begin func(r *http.Request) (*Lookup, error)
	// Status is the HTTP status of an error of Begin or the index.
	Status func(error) int
	// Notes stores annotations and descriptions. If it is nil, there are none, and writes of them get 503.
	Notes *notes.Store
	// Aliases are the second names of metrics and labels; nil means that there are none. MayRename lets clients change them.
	Aliases   *aliases.Registry
	MayRename bool
	// Names are the rules of names.
	Names *opentsdb.Names
	// Stats returns the data points of /api/stats; nil means that there are none.
	Stats *stats.Source
	// Queries are the running and completed queries for /api/stats/query.
	Queries *querystats.List
	// Flags are the command line's flags and their values, for /api/config.
	Flags map[string]string
	Build Build
	Now   func() time.Time
	// BodyBytesMax bounds the body of a request.
	BodyBytesMax int64
}

// Build describes the program for /api/version.
type Build struct{ Version, Revision, Branch, User, Date string }

// Text is the response to version without /api/, and by telnet.
func (b *Build) Text() string {
	return fmt.Sprintf("Halite %s built at revision %s\nBuilt on %s with %s\n", b.Version, b.Revision, b.Date, runtime.Version())
}

// Handlers answer OpenTSDB's paths.
type Handlers struct {
	opts  Options
	times *request.Parser
}

// New returns handlers.
func New(o Options) *Handlers { return &Handlers{o, request.NewParser(o.Now, request.Limits{})} }

// Endpoint is a path with its required rights.
type Endpoint struct {
	Path string
	// Below is set if all longer paths belong to the endpoint as well.
	Below bool
	// Name distinguishes endpoints of one path.
	Name       string
	Methods    []string
	Scopes     principal.Scopes
	Restricted bool
	// Tenants is set if the endpoint is about the series of a tenant.
	Tenants bool
	// Changes is set if the endpoint changes what is stored.
	Changes bool
	Handle  http.HandlerFunc
}

// Endpoints returns all endpoints. Endpoints with one path differ in their methods.
func (h *Handlers) Endpoints() []Endpoint {
	const get, post, put, remove = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	var list []Endpoint
	reads := func(path string, restricted bool, handle handler, methods ...string) {
		whole := path == "/api/config" || path == "/api/stats/" // endpoints about the whole server
		below := strings.HasSuffix(path, "/")
		path = strings.TrimSuffix(path, "/")
		list = append(list, Endpoint{
			Path: path, Below: below, Name: path, Methods: methods, Scopes: principal.Read, Restricted: restricted, Tenants: !whole,
			Handle: h.handlerFunc(handle),
		})
	}
	writes := func(path string, handle handler, methods ...string) {
		below := strings.HasSuffix(path, "/")
		path = strings.TrimSuffix(path, "/")
		list = append(list, Endpoint{
			Path: path, Below: below, Name: path + " " + strings.Join(methods, " "), Methods: methods, Scopes: principal.Write,
			Changes: true, Tenants: true, Handle: h.handlerFunc(handle),
		})
	}
	reads("/api/suggest", true, h.suggest, get, post)
	reads("/api/search/", true, h.search, get, post)
	reads("/api/aggregators", true, h.aggregators, get)
	reads("/api/config", false, h.config, get, post)
	reads("/api/config/filters", true, h.filters, get, post)
	reads("/api/version", true, h.version, get, post)
	reads("/api/serializers", true, h.serializers, get, post)
	reads("/api/status", true, h.status, get)
	reads("/api/dropcaches", true, h.dropCaches, get, post, remove)
	reads("/api/stats/", false, h.stats, get, post)
	writes("/api/uid/assign", h.assign, get, post)
	list = append(list, Endpoint{
		Path: "/api/uid/rename", Name: "/api/uid/rename", Methods: []string{get, post}, Scopes: principal.Admin, Changes: true,
		Tenants: true, Handle: h.handlerFunc(h.rename),
	})
	reads("/api/annotation", false, h.noted(h.annotation), get)
	writes("/api/annotation", h.noted(h.changeAnnotation), post, put, remove)
	writes("/api/annotation/bulk", h.noted(h.storeAnnotations), post, put)
	writes("/api/annotation/bulk", h.noted(h.deleteAnnotations), remove)
	reads("/api/annotations", false, h.noted(h.annotations), get)
	reads("/api/uid/uidmeta", true, h.noted(h.uidMeta), get)
	reads("/api/uid/tsmeta", true, h.noted(h.tsMeta), get)
	writes("/api/uid/uidmeta", h.noted(h.changeUIDMeta), post, put, remove)
	writes("/api/uid/tsmeta", h.noted(h.changeTSMeta), post, put, remove)
	reads("/api/uid/", true, h.noUID, get, post)
	reads("/api/tree/", true, h.tree, get)
	writes("/api/tree/", h.tree, post, put, remove)
	return list
}

// handler answers a request, or returns an error.
type handler func(w http.ResponseWriter, r *http.Request) error

// handlerFunc turns errors into responses.
func (h *Handlers) handlerFunc(handle handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := handle(w, r); err != nil {
			h.fail(w, err)
		}
	}
}

// notes returns the notes of the tenant of a request.
func (h *Handlers) notes(ctx context.Context) *notes.Store {
	return h.opts.Notes.ForTenant(principal.From(ctx).Prefix())
}

// noted refuses requests if the server stores no notes, or if they read several tenants.
func (h *Handlers) noted(handle handler) handler {
	if h.opts.Notes != nil {
		return func(w http.ResponseWriter, r *http.Request) error {
			if principal.From(r.Context()).Several() {
				return badRequest("annotations and descriptions are read for one tenant at a time")
			}
			return handle(w, r)
		}
	}
	return func(http.ResponseWriter, *http.Request) error {
		return &failure{status: http.StatusServiceUnavailable, message: "this server keeps no annotations and descriptions"}
	}
}
