package wire

import (
	"encoding/json"
	"fmt"
	"math"
)

// A Count is a whole number as JSON has them: 100.0 and 1e2 are 100. Null leaves
// it as it is.
type Count int

// UnmarshalJSON reads a number without a fraction.
func (c *Count) UnmarshalJSON(data []byte) error {
	var f *float64
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if f == nil {
		return nil
	}
	if *f != math.Trunc(*f) || math.Abs(*f) > math.MaxInt32 {
		return fmt.Errorf("%s is no count", data)
	}
	*c = Count(*f)
	return nil
}
