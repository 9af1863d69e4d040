-- What each customer has spent. A view is computed anew with each run.
CREATE MATERIALIZED VIEW revenue AS
SELECT customer, count(*) AS orders, round(sum(total), 2) AS total
FROM orders
GROUP BY customer;
