"""`pimloom rtl emit BLOCK -o DIR/`: a block as a folder that stands by itself."""
