# It never finishes its import.
# statuses = ["missing"]
# score = 0
# error = "its import took more than"
while True:
    pass
