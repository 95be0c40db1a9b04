package fleet

import "github.com/prometheus/common/model"

// Description is the metadata of a metric family of the fleet.
type Description struct {
	Metric string
	Type   model.MetricType
	Help   string
}

// Descriptions returns the metadata of all metric families that series of a fleet belong to.
func Descriptions() []Description {
	return []Description{
		{"app_build_info", model.MetricTypeGauge, "The value is 1, and the label version names the release of the service."},
		{"app_heap_bytes", model.MetricTypeGauge, "Heap of the service that is in use."},
		{"app_latency_seconds", model.MetricTypeGauge, "A quantile of the latency of requests, as the service estimates it."},
		{"app_queue_depth", model.MetricTypeGauge, "Messages that wait in a queue."},
		{"app_request_duration_seconds", model.MetricTypeHistogram, "Latency of requests."},
		{"app_requests_in_flight", model.MetricTypeGauge, "Requests that the service serves now."},
		{"app_requests_total", model.MetricTypeCounter, "Requests by HTTP status code."},
		{"app_workers", model.MetricTypeGauge, "Configured worker threads."},
		{"node_boot_time_seconds", model.MetricTypeGauge, "Unix time of the last boot."},
		{"node_cpu_seconds_total", model.MetricTypeCounter, "Seconds that a CPU spent in each mode."},
		{"node_disk_read_bytes_total", model.MetricTypeCounter, "Bytes that were read from a disk."},
		{"node_disk_writes_completed_total", model.MetricTypeCounter, "Writes that a disk completed."},
		{"node_filefd_maximum", model.MetricTypeGauge, "Limit of open file descriptors."},
		{"node_filesystem_avail_bytes", model.MetricTypeGauge, "Space of a file system that users may still fill."},
		{"node_filesystem_size_bytes", model.MetricTypeGauge, "Size of a file system."},
		{"node_hwmon_temp_celsius", model.MetricTypeGauge, "Temperature of a sensor."},
		{"node_load1", model.MetricTypeGauge, "Load average of 1 minute."},
		{"node_load15", model.MetricTypeGauge, "Load average of 15 minutes."},
		{"node_load5", model.MetricTypeGauge, "Load average of 5 minutes."},
		{"node_memory_MemAvailable_bytes", model.MetricTypeGauge, "Memory that processes can still get without swapping."},
		{"node_memory_MemCached_bytes", model.MetricTypeGauge, "Memory of the page cache."},
		{"node_memory_MemDirty_bytes", model.MetricTypeGauge, "Memory that waits for its write to disk."},
		{"node_memory_MemFree_bytes", model.MetricTypeGauge, "Memory that nothing uses."},
		{"node_network_receive_bytes_total", model.MetricTypeCounter, "Bytes that a network device received."},
		{"node_network_transmit_packets_total", model.MetricTypeCounter, "Packets that a network device sent."},
		{"process_cpu_seconds_total", model.MetricTypeCounter, "CPU seconds of the process, in user and system mode."},
		{"up", model.MetricTypeGauge, "1 if the last scrape of the target succeeded, else 0."},
	}
}
