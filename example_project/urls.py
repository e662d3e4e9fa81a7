"""A status page at the root, the admin beside it."""

from django.contrib import admin
from django.urls import path

from example_project.shop.views import status

urlpatterns = [
    path("", status, name="status"),
    path("admin/", admin.site.urls),
]
