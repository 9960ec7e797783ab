export * from '@ai-sdk/react'
