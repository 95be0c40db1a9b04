package fleet

import (
	"strconv"

	"halite/keyschema"
)

// shape says how the values of a series change.
type shape uint8

const (
	// counter grows by about rate per second and resets when its host or service restarts.
	counter shape = iota
	// bucket is a cumulative histogram bucket or a count. rate is its share of the service's requests.
	bucket
	// sum is the sum of a histogram, with accumulated rounding errors.
	sum
	// gauge is a random walk with steps of about rate that is pulled towards level.
	gauge
	// mantissa is a gauge that uses all bits of a float64.
	mantissa
	// constant never changes.
	constant
	// rare changes about once in a thousand steps.
	rare
	// started is the time, in seconds, at which the host or service last started.
	started
)

// spec is one series of a unit. own are its labels in addition to the labels of the unit. Values are multiples of 1/per,
// so that they have few decimals.
type spec struct {
	metric  string
	own     []keyschema.Tag
	shape   shape
	rate    float64
	level   float64
	per     float64
	service int // −1: the host itself
}

func tags(pairs ...string) []keyschema.Tag {
	list := make([]keyschema.Tag, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, keyschema.Tag{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}

const (
	pageBytes = 4096
	// machineSeries and serviceSeries are the numbers of series that machineSpecs and serviceSpecs return.
	machineSeries = 40
	serviceSeries = 20
)

func (o *Options) hostSeries() int { return machineSeries + o.Services*serviceSeries }

// machineSpecs returns the series of a host without its services.
func machineSpecs() []spec {
	var list []spec
	add := func(metric string, sh shape, rate, level, per float64, own ...string) {
		list = append(list, spec{metric: metric, own: tags(own...), shape: sh, rate: rate, level: level, per: per, service: -1})
	}
	for cpu := range 4 {
		for i, mode := range []string{"idle", "iowait", "system", "user"} {
			add("node_cpu_seconds_total", counter, []float64{62, 1.5, 8, 28}[i], 0, 100, "cpu", strconv.Itoa(cpu), "mode", mode)
		}
	}
	for _, disk := range []string{"nvme0n1", "sda"} {
		add("node_disk_read_bytes_total", counter, 210*pageBytes, 0, 1, "device", disk)
		add("node_disk_writes_completed_total", counter, 85, 0, 1, "device", disk)
	}
	for _, nic := range []string{"eth0", "lo"} {
		add("node_network_receive_bytes_total", counter, 1_300_000, 0, 1, "device", nic)
		add("node_network_transmit_packets_total", counter, 1_150, 0, 1, "device", nic)
	}
	for i, m := range []string{"node_load1", "node_load5", "node_load15"} {
		add(m, gauge, []float64{18, 5, 2}[i], 190, 100)
	}
	for i, m := range []string{"Available", "Cached", "Dirty", "Free"} {
		add("node_memory_Mem"+m+"_bytes", gauge, float64(int(5000)>>i), float64(int(3_000_000)>>i), 1.0/pageBytes)
	}
	for _, m := range []string{"/", "/var/lib/data"} {
		add("node_filesystem_avail_bytes", gauge, 400, 21_000_000, 1.0/pageBytes, "fstype", "xfs", "mountpoint", m)
		add("node_filesystem_size_bytes", constant, 0, 30_000_000, 1.0/pageBytes, "fstype", "xfs", "mountpoint", m)
	}
	for i := range 2 {
		add("node_hwmon_temp_celsius", gauge, 350, 51_000, 1000, "sensor", "core_"+strconv.Itoa(i))
	}
	add("up", constant, 0, 1, 1)
	add("node_boot_time_seconds", started, 0, 0, 1)
	add("node_filefd_maximum", rare, 4096, 262_144, 1)
	return list
}

// serviceSpecs returns the series of one service on a host.
func serviceSpecs(service int, name string) []spec {
	var list []spec
	add := func(metric string, sh shape, rate, level, per float64, own ...string) {
		list = append(list, spec{
			metric: metric, own: tags(append(own, "service", name)...), shape: sh, rate: rate, level: level, per: per,
			service: service,
		})
	}
	for i, code := range []string{"200", "404", "500"} {
		add("app_requests_total", bucket, []float64{0.978, 0.02, 0.002}[i], 0, 1, "code", code)
	}
	for i, le := range []string{"0.005", "0.025", "0.1", "0.25", "1", "2.5", "10", "+Inf"} {
		add("app_request_duration_seconds_bucket", bucket, []float64{0.34, 0.62, 0.85, 0.93, 0.985, 0.995, 0.999, 1}[i], 0, 1, "le", le)
	}
	add("app_request_duration_seconds_count", bucket, 1, 0, 1)
	add("app_request_duration_seconds_sum", sum, 0.083, 0, 1)
	add("app_requests_in_flight", gauge, 2, 9, 1)
	add("app_queue_depth", gauge, 6, 45, 1, "queue", "incoming")
	add("app_heap_bytes", gauge, 900, 40_000, 1.0/pageBytes)
	add("process_cpu_seconds_total", counter, 35, 0, 100)
	add("app_latency_seconds", mantissa, 0, 31, 1000, "quantile", "0.99")
	add("app_build_info", constant, 0, 1, 1, "version", "v2."+strconv.Itoa(service)+".7")
	add("app_workers", rare, 2, 16, 1)
	return list
}
