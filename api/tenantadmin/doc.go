// Package tenantadmin lists tenants with their usage, adds them, and drops them with all their data.
//
// A drop marks the tenant in the list first. From then on its requests are refused, and a job removes its data. The job
// goes on after a crash, until nothing is left. Then the tenant leaves the list.
package tenantadmin
