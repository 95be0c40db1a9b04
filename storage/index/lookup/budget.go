package lookup

// Budget accounts for memory, in bytes, before a look-up takes it. Its error ends the look-up. A look-up gives nothing back;
// when it ends, only what it returned is left. A nil Budget allows everything.
type Budget func(bytes int64) error

// ChargeBytes is how much a look-up takes before it charges the budget.
const ChargeBytes = 64 << 10

// charge counts memory that a query is about to take.
func (q *query) charge(bytes int) error {
	q.unchargedBytes += int64(bytes)
	if q.budget == nil || q.unchargedBytes < ChargeBytes {
		return nil
	}
	taken := q.unchargedBytes
	q.unchargedBytes = 0
	return q.budget(taken)
}
