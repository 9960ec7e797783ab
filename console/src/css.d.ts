// Vite turns an import of a style sheet into a file of the build.
declare module '*.css'
