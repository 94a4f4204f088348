package main

import (
	"encoding/json"

	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A specInfo is slime's spec_info: the counts of speculative decoding, summed
// over the requests of a sample's own turns.
type specInfo struct {
	Accepted   int `json:"spec_accept_token_num"`
	Drafted    int `json:"spec_draft_token_num"`
	Verified   int `json:"spec_verify_ct"`
	Completion int `json:"completion_token_num"`
}

// specOf sums what the engine counted, by its newer names or the older ones. What
// it did not count is 0: these are statistics, and nothing is trained on them.
func specOf(seg *trajectory.Segment, turns map[string]metas) specInfo {
	var sum specInfo
	for _, t := range seg.Turns {
		if !t.Owned {
			continue
		}
		for _, m := range turns[t.ID] {
			var meta struct {
				Accepted    *int `json:"spec_num_correct_drafts"`
				OldAccepted int  `json:"spec_accept_token_num"`
				Drafted     *int `json:"spec_num_proposed_drafts"`
				OldDrafted  int  `json:"spec_draft_token_num"`
				Verified    int  `json:"spec_verify_ct"`
				Completion  int  `json:"completion_tokens"`
			}
			if json.Unmarshal(m, &meta) != nil {
				continue
			}
			if meta.Accepted != nil {
				meta.OldAccepted = *meta.Accepted
			}
			if meta.Drafted != nil {
				meta.OldDrafted = *meta.Drafted
			}
			sum.Accepted, sum.Drafted = sum.Accepted+meta.OldAccepted, sum.Drafted+meta.OldDrafted
			sum.Verified, sum.Completion = sum.Verified+meta.Verified, sum.Completion+meta.Completion
		}
	}
	return sum
}
