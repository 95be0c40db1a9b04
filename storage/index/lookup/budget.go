package lookup

// Budget accounts for the memory of a look-up, in bytes, before the look-up allocates it. An error of the Budget ends the
// look-up. A look-up releases nothing, because only its result remains when it ends. A nil Budget allows everything.
type Budget func(bytes int64) error

// ChargeBytes is the amount that a look-up allocates before it charges the budget.
const ChargeBytes = 64 << 10

// charge counts memory that a query is about to allocate.
func (q *query) charge(bytes int) error {
	q.unchargedBytes += int64(bytes)
	if q.budget == nil || q.unchargedBytes < ChargeBytes {
		return nil
	}
	taken := q.unchargedBytes
	q.unchargedBytes = 0
	return q.budget(taken)
}
