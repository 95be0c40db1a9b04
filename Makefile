.DEFAULT_GOAL := help
TOOL := go tool -modfile=.ci/tools/go.mod

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./bin/tsdb
	CGO_ENABLED=0 go build -trimpath -o bin/tsdb ./cmd/tsdb

run: ## build and run the server on ./data
	go run ./cmd/tsdb serve

test: ## every test that a commit must pass
	go test -timeout 20m ./...

race: ## the race detector where goroutines meet
	go test -race -short ./ingest/... ./storage/... ./query/... ./rollup/... ./api/... ./cmd/...

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { echo "gofmt wants changes in:"; gofmt -l .; exit 1; }
	go vet ./...
	$(TOOL) staticcheck ./...

fuzz: ## every fuzz target, 10 s each (FUZZTIME=60s for a night)
	FUZZTIME=$${FUZZTIME:-10s} .ci/fuzz

crash: ## crash tests with many more seeds (HALITE_SEEDS=20000 for a night)
	HALITE_SEEDS=$${HALITE_SEEDS:-5000} go test -run 'Crash' -timeout 8h ./ingest/... ./storage/... ./rollup/...

differential: ## random queries against Prometheus's own storage and engine (HALITE_CASES=20000 for a night)
	HALITE_SEED=$${HALITE_SEED:-$$(date +%s)} HALITE_CASES=$${HALITE_CASES:-20000} go test -run TestAgainstPrometheus -timeout 8h ./query
	HALITE_SEEDS=$${HALITE_SEEDS:-250} go test -run TestStatesEqualSamples -timeout 8h ./rollup/job
	HALITE_SEEDS=$${HALITE_SEEDS:-250} HALITE_CASES=400 go test -run TestEnginesAgree -timeout 8h ./query
	HALITE_OPLOG_OPS=100000 go test -run TestOplog -timeout 8h ./storage/bigtable

reference: ## Prometheus's own API and PromQL files, over HTTP, beside the server (2 minutes)
	cd api/testdata/reference && go test -timeout 20m ./...

bench: ## benchmarks, ten runs each, for benchstat
	go test -run '^$$' -bench . -benchmem -count 10 ./keyschema/... ./storage/... ./rollup/... ./ingest/... ./query/...

prometheus3: ## build the Prometheus that go.mod pins into the user's cache, and print its path
	@.ci/tools/prometheus

realinput: ## real Prometheus 2 and 3 and node_exporter write; queries must equal Prometheus's own (REALINPUT_ENGINE=bigtable)
	PROMETHEUS3=$$(.ci/tools/prometheus) && export PROMETHEUS3 && \
		go test -tags realinput -run "TestRealInput|TestRealPair" -v -timeout 30m ./cmd/tsdb

realsizes: ## bytes a sample of a day of real scrapes (VICTORIA_METRICS=/path/to/binary for a peer)
	go test -tags realinput -run TestRealSizes -v -timeout 60m ./cmd/tsdb

realwrite: ## CPU time of remote write 1.0 and 2.0, beside Prometheus (VICTORIA_METRICS=/path/to/binary for another peer)
	PROMETHEUS3=$$(.ci/tools/prometheus) && export PROMETHEUS3 && \
		go test -tags realinput -run TestRealWriteCPU -v -timeout 30m ./cmd/tsdb

release: ## packages, archives and image into dist/, tried on this machine
	.ci/release

golden: ## rewrite golden files; read the diff before you commit it
	go test ./keyschema ./keyschema/chunk ./keyschema/daychunk ./keyschema/exemplar ./keyschema/histchunk ./rollup/cell ./storage/keyviz/heat -rewrite
	go test ./cmd/tsdb -run 'Reference$$' -rewrite

.PHONY: help build run test race lint fuzz crash differential reference bench prometheus3 realinput realsizes realwrite release golden
