// Package opentsdb answers the HTTP requests of OpenTSDB's clients that neither write samples nor query them.
//
// Below the main address, OpenTSDB's paths stand beside Prometheus's. On an address of their own, Port serves nothing else, so
// that /api/v1 means the version of OpenTSDB's API there.
package opentsdb
