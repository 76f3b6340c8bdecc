"""`python -m neuralsolver` is `ens`."""

from neuralsolver.cli import main

if __name__ == "__main__":
    main()
