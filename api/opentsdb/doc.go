// Package opentsdb answers the HTTP requests of OpenTSDB's clients that neither write samples nor query them.
//
// The main address serves the paths of OpenTSDB and of Prometheus. Port serves only OpenTSDB's paths on an address of their own.
// There, /api/v1 means the version of OpenTSDB's API.
package opentsdb
