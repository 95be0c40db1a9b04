// Package tenantadmin lists tenants with what they use, adds them, and drops them with all that they have.
//
// A drop marks the tenant in the list first. From then on its requests are refused, and a job removes what it has. The job goes
// on after a crash, until nothing is left. Then the tenant leaves the list.
package tenantadmin
