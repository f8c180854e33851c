"""What the parts of DDLP say to each other, and the pure logic they share; imports none of them."""
