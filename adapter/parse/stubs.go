package parse

func (s *scanner) mistralCalls() {}
func (s *scanner) llamaCalls()   {}
func (s *scanner) harmonyCalls() {}
