# Rampart's server. It listens on loopback only until it has tokens, so run it with `--network host`.
FROM node:20-bookworm-slim AS vendor
WORKDIR /src
COPY package.json package-lock.json ./
COPY static static
RUN npm ci --no-audit --no-fund && npm run --silent vendor

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY crates crates
COPY migrations migrations
COPY templates templates
COPY campaigns campaigns
COPY benches benches
COPY src src
COPY --from=vendor /src/static static
RUN cargo build --release --locked --bin rampart

FROM debian:bookworm-slim
# Java and ZooKeeper let the server launch targets of its own; for remote targets alone they are not needed.
RUN apt-get update \
    && apt-get install -y --no-install-recommends default-jre-headless zookeeper \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /var/lib/rampart rampart
COPY --from=build /src/target/release/rampart /usr/local/bin/rampart
COPY scenarios /usr/share/rampart/scenarios
COPY campaigns /usr/share/rampart/campaigns
USER rampart
WORKDIR /var/lib/rampart
ENV RAMPART_DB=/var/lib/rampart/rampart.db RAMPART_SCENARIOS=/usr/share/rampart/scenarios
VOLUME /var/lib/rampart
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["rampart", "health"]
ENTRYPOINT ["rampart"]
CMD ["serve"]
