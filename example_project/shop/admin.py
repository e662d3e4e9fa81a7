"""The shop's own tables in the admin. Change an order's card here, then redrive its dead letter."""

from django.contrib import admin

from example_project.shop.models import EmailLog, Invoice, Order


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "shop", "amount", "card", "status", "created_at"]
    list_filter = ["status", "card", "shop"]
    search_fields = ["number"]


@admin.register(Invoice)
class InvoiceAdmin(admin.ModelAdmin):
    list_display = ["order", "created_at"]


@admin.register(EmailLog)
class EmailLogAdmin(admin.ModelAdmin):
    list_display = ["subject", "to", "reference", "sent_at"]
