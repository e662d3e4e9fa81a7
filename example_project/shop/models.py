"""What the shop remembers."""

from django.db import models


class Order(models.Model):
    """One purchase in one of the shops."""

    class Card(models.TextChoices):
        """How the customer's card behaves at the payment gateway."""

        VALID = "valid", "valid"
        FLAKY = "flaky", "valid, but the gateway is down at the first two tries"
        DECLINED = "declined", "declined"

    class Status(models.TextChoices):
        NEW = "new"
        PAID = "paid"
        DECLINED = "declined"

    number = models.CharField(max_length=40, unique=True)
    shop = models.CharField(max_length=40, help_text="The tenant: its jobs are one partition of each queue.")
    email = models.EmailField()
    amount = models.DecimalField(max_digits=8, decimal_places=2)
    card = models.CharField(max_length=10, choices=Card, default=Card.VALID)
    status = models.CharField(max_length=10, choices=Status, default=Status.NEW)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.number


class Invoice(models.Model):
    """The document of a paid order."""

    order = models.OneToOneField(Order, on_delete=models.CASCADE)
    pdf = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"Invoice of {self.order}"


class EmailLog(models.Model):
    """A mail that was "sent". One per recipient, subject and reference, however often the job runs."""

    to = models.EmailField()
    subject = models.CharField(max_length=200)
    reference = models.CharField(max_length=80)
    sent_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["to", "subject", "reference"], name="shop_email_once")]

    def __str__(self) -> str:
        return f"{self.subject} to {self.to}"
