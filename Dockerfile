FROM python:3.13-slim
RUN useradd --system --create-home --home-dir /srv/repository repository
WORKDIR /srv/repository
COPY . /tmp/flask_ibi_archive
RUN pip install --no-cache-dir '/tmp/flask_ibi_archive[example,postgresql]' gunicorn
# your app instead of the example
COPY example_app example_app
RUN mkdir instance && chown repository instance
USER repository
ENV FLASK_APP=example_app MALLOC_ARENA_MAX=1
HEALTHCHECK CMD python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/ibi/health/ready')"
CMD flask db upgrade && flask ibi init && exec gunicorn --bind 0.0.0.0:8000 --workers 2 --threads 4 'example_app:create_app()'
